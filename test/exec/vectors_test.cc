// Compares operators with numbers computed from their formulas in double precision.
#include <cmath>
#include <vector>

#include "exec/reference/loops.h"
#include "graph/models/builder.h"
#include "support/catch.h"

using namespace dtrain::exec::reference;
using namespace dtrain::graph;

namespace {

using Vector = std::vector<double>;

void check_near(const Vector& x, const Vector& expected, double digits = 1e-9) {
  REQUIRE(x.size() == expected.size());
  for (size_t i = 0; i < x.size(); i++) {
    INFO("element " << i);
    CHECK(x[i] == Approx(expected[i]).epsilon(0).margin(digits));
  }
}

struct BatchNormRun {
  Vector y = Vector(4), dx = Vector(4), dgamma = Vector(1), dbeta = Vector(1);
  std::vector<float> moving_mean = {0}, moving_var = {1};
};

BatchNormRun run_batch_norm(bool fix_gamma) {
  const BatchNorm op{.epsilon = 1e-3, .momentum = 0.9, .fix_gamma = fix_gamma};
  const Extent four{4, 1, 1, 1};
  const Vector x = {1, 2, 3, 4}, dy = {0.1, 0.2, -0.3, 0.4}, gamma = {1.5}, beta = {0.5};
  Vector mean(1), inv_std(1);
  const BatchStatistics<double> statistics{mean, inv_std};
  BatchNormRun run;
  batch_norm_training<double>(op, four, x, gamma, beta, statistics, run.moving_mean, run.moving_var, run.y);
  batch_norm_backward<double>(op, four, x, gamma, statistics, dy, run.dx, run.dgamma, run.dbeta);
  return run;
}

Vector pool(const Pooling& op, int64_t out) {
  Vector x, y(static_cast<size_t>(out * out));
  for (int i = 1; i <= 16; i++) x.push_back(i);
  pooling_forward<double>(op, {1, 1, 4, 4}, x, {1, 1, out, out}, y);
  return y;
}

Pooling window_3_by_2(Pooling::Kind kind, int64_t pad, Pooling::Rounding rounding,
                      Pooling::Divisor divisor = Pooling::Divisor::kPadded) {
  return pooling(kind, 3, 2, pad, rounding, divisor);
}

}  // namespace

TEST_CASE("batch norm computes the documented numbers", "[exec][vectors]") {
  const BatchNormRun run = run_batch_norm(false);
  check_near(run.y, {-1.511656678, -0.170552226, 1.170552226, 2.511656678});
  check_near(run.dx, {0.080401946, 0.160911094, -0.563242429, 0.321929390});
  check_near(run.dgamma, {0.178813927});
  check_near(run.dbeta, {0.4});
  CHECK(run.moving_mean[0] == Approx(0.25));
  CHECK(run.moving_var[0] == Approx(1.025));  // uses the biased variance
}

TEST_CASE("batch norm with gamma fixed ignores the stored gamma", "[exec][vectors]") {
  const BatchNormRun run = run_batch_norm(true);
  check_near(run.y, {-0.841104452, 0.052965183, 0.947034817, 1.841104452});
  check_near(run.dx, {0.053601297, 0.107274062, -0.375494953, 0.214619593});
  CHECK(run.dgamma[0] == 0);
  check_near(run.dbeta, {0.4});
}

TEST_CASE("batch norm of inference uses the moving statistics", "[exec][vectors]") {
  const std::vector<float> mean = {0.25F}, var = {1.5F};
  const Vector x = {1, -1}, gamma = {2}, beta = {3};
  Vector y(2);
  batch_norm_inference<double>({.epsilon = 0.5, .fix_gamma = false}, {2, 1, 1, 1}, x, gamma, beta, mean, var, y);
  check_near(y, {2 * 0.75 / std::sqrt(2.0) + 3, 2 * -1.25 / std::sqrt(2.0) + 3});
  batch_norm_inference<double>({.epsilon = 0.5, .fix_gamma = true}, {2, 1, 1, 1}, x, gamma, beta, mean, var, y);
  check_near(y, {0.75 / std::sqrt(2.0) + 3, -1.25 / std::sqrt(2.0) + 3});
}

// An average divides as its node says; there is no operator that excludes the padding.
TEST_CASE("pooling of the 4x4 map has the documented numbers", "[exec][vectors]") {
  using R = Pooling::Rounding;
  constexpr auto kMax = Pooling::Kind::kMax, kAverage = Pooling::Kind::kAverage;
  constexpr auto kKernel = Pooling::Divisor::kKernel;
  constexpr double kDigits = 1e-6;
  check_near(pool(window_3_by_2(kAverage, 1, R::kValid), 2), {1.555556, 3.333333, 6.333333, 11}, kDigits);
  check_near(pool(window_3_by_2(kAverage, 1, R::kFull), 3), {1.555556, 3.333333, 2, 6.333333, 11, 6, 4.5, 7.5, 4},
             kDigits);
  check_near(pool(window_3_by_2(kAverage, 0, R::kValid), 1), {6});
  check_near(pool(window_3_by_2(kAverage, 0, R::kFull), 2), {6, 7.5, 12, 13.5});
  check_near(pool(window_3_by_2(kAverage, 0, R::kV07, kKernel), 2), {6, 5, 8, 6});
  check_near(pool(window_3_by_2(kMax, 0, R::kFull), 2), {11, 12, 15, 16});
  check_near(pool(window_3_by_2(kMax, 0, R::kV07), 2), {11, 12, 15, 16});
  check_near(pool(window_3_by_2(kMax, 1, R::kValid), 2), {6, 8, 14, 16});
  check_near(pool({.kind = kAverage, .global = true}, 1), {8.5});
  check_near(pool({.kind = kMax, .global = true}, 1), {16});
}

TEST_CASE("the gradient of a maximum goes to the first of equal values", "[exec][vectors]") {
  const Vector x = {7, 7, 7, 7}, dy = {2};
  Vector dx(4);
  pooling_backward<double>({.kernel_h = 2, .kernel_w = 2}, {1, 1, 2, 2}, x, {1, 1, 1, 1}, dy, dx);
  check_near(dx, {2, 0, 0, 0});
}

TEST_CASE("softmax and its gradient have the documented numbers", "[exec][vectors]") {
  const Vector x = {1, 2, 3};
  const std::vector<float> label = {0};
  Vector p(3), plain(3), smooth(3);
  softmax_forward<double>(1, x, p);
  check_near(p, {0.090030573, 0.244728471, 0.665240956});
  softmax_backward<double>({}, p, label, plain);
  check_near(plain, {-0.909969427, 0.244728471, 0.665240956});
  softmax_backward<double>({.smooth_alpha = 0.1}, p, label, smooth);
  check_near(smooth, {-0.809969427, 0.194728471, 0.615240956});
}

TEST_CASE("softmax is finite for logits whose exp overflows", "[exec][vectors]") {
  const Vector x = {1000, 0, -1000};
  Vector p(3);
  softmax_forward<double>(1, x, p);
  check_near(p, {1, 0, 0});
}
