// Every operator case of test/exec/cases.h on the emulated device.

#include "emulator.h"
#include "exec/check.h"
#include "exec/contract.h"
#include "plain_runner.h"
#include "steps.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;
using exec::test::Case;
using exec::test::HostBatch;
using exec::test::run_step;
using exec::test::Step;
using exec::test::Values;

namespace {

CheckReport check_case(const Case& c, const Options& options, Values values, double factor) {
  auto executor = cuda::test::emulated_backend()->compile(c.graph, options).value();
  executor->set_loss_scale({256});
  fill_parameters(executor->parameters(), values, 2);
  const HostBatch batch = make_batch(c, values, 1);
  return check_against_reference(c.graph, options, *executor, batch.view(), {.tolerance_factor = factor}).value();
}

std::vector<size_t> every_parameter(const Case& c) {
  std::vector<size_t> begin;
  for (size_t p = 0; p < exec::infer_shapes(c.graph, exec::test::case_options(c))->parameters.size(); p++)
    begin.push_back(p);
  return begin;
}

Step step_of(Executor& executor, const Case& c, uint64_t seed) {
  fill_parameters(executor.parameters(), Values::kFloats, seed);
  return run_step(executor, make_batch(c, Values::kFloats, seed).view()).value();
}

void check_fused(const Case& c, Type type) {
  INFO(c.name << " in " << type_name(type));
  Options options = case_options(c);
  options.dtype = type;
  auto apart = cuda::test::emulated_backend()->compile(c.graph, options).value();
  options.keep_all = false;
  options.bucket_begin = every_parameter(c);
  auto fused = cuda::test::emulated_backend()->compile(c.graph, options).value();
  for (const uint64_t seed : {1, 2, 3}) {
    const exec::test::Difference difference =
        largest_difference(step_of(*apart, c, seed), step_of(*fused, c, seed), 1e-6);
    INFO(difference.tensor);
    CHECK(difference.error <= exec::test::fusion_tolerance(type));
  }
}

}  // namespace

// Small whole numbers make all sums exact in any order.
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
    for (const Type type : {Type::kFloat32, Type::kFloat16, Type::kBfloat16}) check_fused(c, type);
  }
}

// The order of work between streams must be defined by events, not by chance.
TEST_CASE("fusion, shared memory and buckets change nothing, as late as streams may run", "[cuda][exec]") {
  const cuda::emulator::LateStreams late;
  for (const Case& c : exec::test::operator_cases()) check_fused(c, Type::kFloat32);
}
