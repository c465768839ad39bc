#include "optim/initializer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

using namespace dtrain;
using namespace dtrain::optim;

namespace {

std::vector<float> filled(const std::string& spec, const std::string& name, const Shape& shape, uint64_t seed = 1,
                          uint64_t index = 0) {
  std::vector<float> values(static_cast<size_t>(element_count(shape)), 99.0F);
  REQUIRE(initialize(*parse_initializer(spec), name, shape, seed, index, values));
  return values;
}

double bound(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

double deviation(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

}  // namespace

// With a probability of 95 %, the largest of n uniform draws is within 3 / n of the bound, and the standard deviation
// of n normal draws within 3 / sqrt(2 n) of its expectation. The seed is fixed, so the result does not vary.
TEST_CASE("xavier has the documented scales", "[optim]") {
  const Shape conv = {96, 3, 3, 3};
  const Shape dense = {10, 336};
  const auto n = 2592.0;
  CHECK(bound(filled("xavier(uniform,in,2.34)", "c_weight", conv)) == Approx(0.294392029).epsilon(3 / n));
  CHECK(deviation(filled("xavier(gaussian,in,2)", "c_weight", conv)) ==
        Approx(0.272165527).epsilon(3 / std::sqrt(2 * n)));
  CHECK(bound(filled("xavier", "c_weight", conv)) == Approx(0.082060994).epsilon(3 / n));
  CHECK(bound(filled("xavier(uniform,in,2.34)", "fc_weight", dense)) == Approx(0.083452296).epsilon(3 / n));
  CHECK(deviation(filled("xavier(gaussian,in,2)", "fc_weight", dense)) ==
        Approx(0.077151675).epsilon(3 / std::sqrt(2 * n)));
  CHECK(bound(filled("xavier()", "fc_weight", dense)) == Approx(0.131685384).epsilon(3 / n));
  // bounds are never exceeded
  CHECK(bound(filled("xavier(uniform,in,2.34)", "c_weight", conv)) <= 0.2943921);
  // fan_out of (10, 336): sqrt(3 / 10)
  CHECK(bound(filled("xavier(uniform,out,3)", "fc_weight", dense)) == Approx(std::sqrt(0.3)).epsilon(3 / n));
}

TEST_CASE("a network's own rule replaces the job's", "[optim]") {
  using Kind = InitializerSpec::Kind;
  std::vector<float> weight(4 * 2 * 3, 9.0F), other(6, 9.0F), variance(2, 9.0F);
  const auto rule = [](Kind kind, double magnitude) {
    return ParameterRule{{}, {}, InitializerSpec{.kind = kind, .magnitude = magnitude}};
  };
  ParameterView view;
  view.parameters.push_back({"proj_weight", {4, 2, 1, 3}, weight, {}, rule(Kind::kDiagonal, 0.25)});
  view.parameters.push_back({"fc_weight", {2, 3}, other, {}, {}});
  view.statistics.push_back({"bn_moving_var", {2}, variance, {}, rule(Kind::kConstant, 0)});
  REQUIRE(initialize(*parse_initializer("xavier"), view, 7));
  for (size_t i = 0; i < weight.size(); i++) {
    const size_t filter = i / 6, channel = i / 3 % 2;
    CHECK(weight[i] == (filter == channel ? 0.25F : 0.0F));
  }
  CHECK(variance == std::vector<float>{0, 0});
  CHECK(other == filled("xavier", "fc_weight", {2, 3}, 7, 1));  // parameters with a rule of their own count too
}

TEST_CASE("uniform and normal have their scale and mean 0", "[optim]") {
  const Shape shape = {100, 100};
  const auto uniform = filled("uniform(0.07)", "fc_weight", shape);
  CHECK(bound(uniform) == Approx(0.07).epsilon(1e-3));
  const auto normal = filled("normal(0.01)", "fc_weight", shape);
  CHECK(deviation(normal) == Approx(0.01).epsilon(0.03));
  const double mean = std::accumulate(normal.begin(), normal.end(), 0.0) / 1e4;
  CHECK(std::abs(mean) < 3 * 0.01 / 100);
}

TEST_CASE("only weights are random", "[optim]") {
  const std::vector<float> zeros(4, 0.0F);
  const std::vector<float> ones(4, 1.0F);
  CHECK(filled("xavier", "fc_bias", {4}) == zeros);
  CHECK(filled("xavier", "bn_beta", {4}) == zeros);
  CHECK(filled("xavier", "bn_moving_mean", {4}) == zeros);
  CHECK(filled("xavier", "bn_gamma", {4}) == ones);
  CHECK(filled("xavier", "bn_moving_var", {4}) == ones);
}

TEST_CASE("a parameter whose name does not show its kind is refused by name", "[optim]") {
  std::vector<float> values(4);
  for (const char* name : {"prelu_alpha", "embedding", "weight", "bn_moving_avg", ""}) {
    const Result<> filled = initialize({}, name, {4}, 1, 0, values);
    REQUIRE_FALSE(filled);
    CHECK(filled.error().code == Code::kUsage);
    CHECK_THAT(filled.error().message, Catch::Contains(fmt::format("'{}'", name)) && Catch::Contains("_weight") &&
                                           Catch::Contains("_moving_var"));
  }
}

TEST_CASE("the numbers depend only on seed and index", "[optim]") {
  const Shape shape = {4, 4};
  CHECK(filled("xavier", "a_weight", shape, 7, 3) == filled("xavier", "b_weight", shape, 7, 3));
  CHECK(filled("xavier", "a_weight", shape, 7, 3) != filled("xavier", "a_weight", shape, 8, 3));
  CHECK(filled("xavier", "a_weight", shape, 7, 3) != filled("xavier", "a_weight", shape, 7, 4));
}

TEST_CASE("the text form is read back", "[optim]") {
  for (const char* text : {"xavier(uniform,in,2.34)", "xavier(gaussian,out,2)", "xavier(uniform,avg,3)",
                           "uniform(0.07)", "normal(0.01)"}) {
    const auto spec = parse_initializer(text);
    REQUIRE(spec);
    CHECK(to_string(*spec) == text);
  }
  CHECK(to_string(*parse_initializer("xavier")) == "xavier(uniform,avg,3)");
  CHECK(to_string(*parse_initializer("uniform")) == "uniform(0.07)");
  CHECK(to_string(*parse_initializer("normal")) == "normal(0.01)");
  CHECK(to_string(*parse_initializer("normal(0.5)")) == "normal(0.5)");
  CHECK(to_string(*parse_initializer(" xavier( gaussian, in ) ")) == "xavier(gaussian,in,3)");
}

TEST_CASE("other texts are refused with the forms that exist", "[optim]") {
  for (const char* text : {"", "(", ")", "xavier(", "xavier)", "xavier(uniform)in)", "xavier(in)",
                           "xavier(uniform,all)", "xavier(uniform,in,-1)", "xavier(uniform,in,2,3)", "uniform(x)",
                           "uniform(0.1,2)", "normal(nan)", "gaussian", "kaiming"}) {
    INFO("text " << text);
    const auto spec = parse_initializer(text);
    REQUIRE_FALSE(spec);
    CHECK(spec.error().code == Code::kUsage);
    CHECK_THAT(spec.error().message, Catch::Contains("xavier(uniform|gaussian"));
  }
}
