// Every operator case of exec/cases.h on the emulated device.
#include <catch2/catch.hpp>

#include "cases.h"
#include "emulator.h"
#include "exec/check.h"
#include "exec/norm.h"
#include "plain_runner.h"

using namespace dtrain;
using namespace dtrain::exec;
using exec::test::Case;
using exec::test::HostBatch;
using exec::test::Values;

namespace {

CheckReport check_case(const Case& c, const Options& options, Values values, double factor) {
  auto executor = cuda::test::emulated_backend()->compile(c.graph, options).value();
  executor->set_loss_scale(256);
  fill_parameters(executor->parameters(), values, 2);
  const HostBatch batch = make_batch(c, values, 1);
  return check_against_reference(c.graph, options, *executor, batch.view(), {.tolerance_factor = factor}).value();
}

// One step of what is trained: fused, in shared memory, in as many buckets as it has parameters.
struct Step {
  std::vector<float> probabilities;
  std::vector<std::vector<float>> gradients, statistics;
};
Step run_step(Executor& executor, const Case& c, uint64_t seed) {
  fill_parameters(executor.parameters(), Values::kFloats, seed);
  const HostBatch batch = make_batch(c, Values::kFloats, seed);
  REQUIRE(executor.forward(batch.view(), no_wait));
  Step step;
  step.probabilities.assign(executor.probabilities().begin(), executor.probabilities().end());
  REQUIRE(executor.backward(no_wait));
  for (const auto& p : executor.parameters().parameters)
    step.gradients.emplace_back(p.gradient.begin(), p.gradient.end());
  for (const auto& s : executor.parameters().statistics) step.statistics.emplace_back(s.weight.begin(), s.weight.end());
  return step;
}

void check_near(const std::vector<float>& a, const std::vector<float>& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  CHECK(normalised_error(a, std::vector<double>(b.begin(), b.end()), 1e-6) <= tolerance);
}

std::vector<size_t> every_parameter(const Case& c) {
  std::vector<size_t> begin;
  for (size_t p = 0; p < graph::infer_shapes(c.graph, c.image)->parameters.size(); p++) begin.push_back(p);
  return begin;
}

// What is fused and shares memory rounds at other places: once less or more for each node that a number comes through.
void check_fused(const Case& c, Type type, double tolerance) {
  INFO(c.name << " in " << type_name(type));
  Options options = case_options(c);
  options.dtype = type;
  auto apart = cuda::test::emulated_backend()->compile(c.graph, options).value();
  options.keep_all = false;
  options.bucket_begin = every_parameter(c);
  auto fused = cuda::test::emulated_backend()->compile(c.graph, options).value();
  for (const uint64_t seed : {1, 2, 3}) {
    const Step a = run_step(*apart, c, seed), b = run_step(*fused, c, seed);
    check_near(b.probabilities, a.probabilities, tolerance);
    for (size_t p = 0; p < a.gradients.size(); p++) {
      INFO("gradient of " << apart->parameters().parameters[p].name);
      check_near(b.gradients[p], a.gradients[p], tolerance);
    }
    for (size_t s = 0; s < a.statistics.size(); s++) check_near(b.statistics[s], a.statistics[s], tolerance);
  }
}

}  // namespace

// Small whole numbers make all sums exact, whatever their order.
TEST_CASE("integers give the bits of the reference on the emulated device", "[cuda][exec]") {
  for (const Case& c : exec::test::operator_cases()) {
    INFO(c.name);
    const CheckReport report = check_case(c, case_options(c), Values::kIntegers, c.exact ? 0 : 1);
    CHECK_THAT(report.text(), Catch::StartsWith("check: all"));
  }
}

TEST_CASE("floats of every type agree with the reference on the emulated device", "[cuda][exec]") {
  for (const Type type : {Type::kFloat32, Type::kFloat16, Type::kBfloat16}) {
    for (const Case& c : exec::test::operator_cases()) {
      INFO(c.name << " in " << type_name(type));
      Options options = case_options(c);
      options.dtype = type;
      const CheckReport report = check_case(c, options, Values::kFloats, 1);
      CHECK_THAT(report.text(), Catch::StartsWith("check: all"));
    }
  }
}

TEST_CASE("fusion, shared memory and buckets change nothing on the emulated device", "[cuda][exec]") {
  for (const Case& c : exec::test::operator_cases()) {
    check_fused(c, Type::kFloat32, 1e-4);
    check_fused(c, Type::kFloat16, 2e-2);
    check_fused(c, Type::kBfloat16, 0.15);
  }
}

// What one stream does before another is said, not left to chance.
TEST_CASE("fusion, shared memory and buckets change nothing, as late as streams may run", "[cuda][exec]") {
  const cuda::emulator::LateStreams late;
  for (const Case& c : exec::test::operator_cases()) check_fused(c, Type::kFloat32, 1e-4);
}
