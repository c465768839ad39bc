#include <algorithm>
#include <memory>

#include "exec/check.h"
#include "modes.h"
#include "stages.h"
#include "steps.h"

namespace dtrain::gpu {

namespace {

using exec::CheckReport;
using exec::Executor;
using exec::Options;
using exec::test::Case;
using exec::test::Step;
using exec::test::Values;

constexpr double kOpLossScale = 256;

Result<std::unique_ptr<Executor>> compile(Machine& machine, const Case& c, const Options& options) {
  machine.use();
  DT_TRY(std::unique_ptr<Executor> executor, machine.backend().compile(c.graph, options));
  executor->set_loss_scale({kOpLossScale});
  return executor;
}

Json worst_of(const CheckReport& report) {
  return {{"error", report.worst.error}, {"tolerance", report.worst.tolerance}};
}

Result<Outcome> against_reference(Machine& machine, const Case& c, const Options& options, Values values,
                                  double factor) {
  DT_TRY(const std::unique_ptr<Executor> executor, compile(machine, c, options));
  fill_parameters(executor->parameters(), values, 2);
  const exec::test::HostBatch batch = make_batch(c, values, 1);
  DT_TRY(const CheckReport report,
         check_against_reference(c.graph, options, *executor, batch.view(), {.tolerance_factor = factor}));
  return report.agrees() ? passed("", worst_of(report)) : failed(report.text(), worst_of(report));
}

Result<Step> step_of(Executor& executor, const Case& c) {
  fill_parameters(executor.parameters(), Values::kFloats, 3);
  return exec::test::run_step(executor, make_batch(c, Values::kFloats, 3).view());
}

// A fused network with shared memory must agree with the same network run node by node. The first step uses plain
// calls, the second is captured, the third replays the graph, and a second executor repeats the step. All of them must
// give the same bits.
Result<Outcome> fused(Machine& machine, const Case& c, Options options) {
  DT_TRY(const std::unique_ptr<Executor> apart, compile(machine, c, options));
  DT_TRY(const Step truth, step_of(*apart, c));
  options.keep_all = false;
  DT_TRY(const std::unique_ptr<Executor> tested, compile(machine, c, options));
  DT_TRY(const std::unique_ptr<Executor> again, compile(machine, c, options));
  DT_TRY(const Step plain, step_of(*tested, c));
  const exec::test::Difference difference = largest_difference(truth, plain, 1e-6);
  const double tolerance = exec::test::fusion_tolerance(options.tf32 ? Type::kFloat16 : options.dtype);
  const Json numbers = {{"error", difference.error}, {"tolerance", tolerance}};
  if (!(difference.error <= tolerance)) {
    return failed(
        fmt::format("fused, {} differs by {:.2g}, tolerance {:.2g}", difference.tensor, difference.error, tolerance),
        numbers);
  }
  for (const char* which : {"captured", "replayed"}) {
    DT_TRY(const Step step, step_of(*tested, c));
    if (!equal_bits(plain, step)) {
      return failed(
          fmt::format("{}, {} has other bits than plain calls", which, largest_difference(plain, step, 1e-6).tensor),
          numbers);
    }
  }
  DT_TRY(const Step second, step_of(*again, c));
  if (!equal_bits(plain, second)) return failed("the same step gives other bits another time", numbers);
  return passed("", numbers);
}

Part reference_part(Machine& machine, const Mode& mode, const Case& c) {
  return {fmt::format("{}: {}", mode.name, c.name), [&machine, mode, c] {
            return against_reference(machine, c, mode.options(case_options(c)), Values::kFloats, 1);
          }};
}

Part fused_part(Machine& machine, const Mode& mode, const Case& c) {
  return {fmt::format("{} fused: {}", mode.name, c.name),
          [&machine, mode, c] { return fused(machine, c, mode.options(case_options(c))); }};
}

bool is_small(const Case& c) {
  static constexpr const char* kSmall[] = {"convolution 3x3 with bias, odd size",
                                           "batch norm of odd sizes",
                                           "max pooling 3x3 stride 2 pad 1, odd size",
                                           "average pooling 3x3 stride 2 pad 1",
                                           "concat of four with odd channels",
                                           "sum of one input with itself",
                                           "relu of odd sizes",
                                           "fully connected of odd sizes",
                                           "softmax with smoothing",
                                           "two convolutions share weight and bias",
                                           "two losses with labels of their own",
                                           "a map and a vector",
                                           "residual unit, projection of the activated input"};
  return std::ranges::find(kSmall, c.name) != std::end(kSmall);
}

}  // namespace

std::vector<Part> convolution_parts(Machine& machine) {
  static constexpr const char* kNames[] = {"first convolution 7x7 stride 2, resnet conv0",
                                           "convolution 1x1",
                                           "convolution 1x1 stride 2, a projection of even size",
                                           "convolution 3x3, 64 channels",
                                           "convolution 3x3 stride 2, even size",
                                           "residual unit, projection of the activated input"};
  const Mode mode = mode_of("float16");
  std::vector<Part> parts;
  for (const Case& c : exec::test::operator_cases()) {
    if (std::ranges::find(kNames, c.name) == std::end(kNames)) continue;
    parts.push_back({c.name, [&machine, mode, c]() -> Result<Outcome> {
                       DT_TRY(const Outcome compared, reference_part(machine, mode, c).run());
                       if (compared.status != Outcome::Status::kPassed) return compared;
                       return fused_part(machine, mode, c).run();
                     }});
  }
  return parts;
}

std::vector<Part> ops_parts(Machine& machine) {
  const std::vector<Case> cases = exec::test::operator_cases();
  std::vector<Part> parts;
  parts.push_back({"NCCL, one rank", [&machine]() -> Result<Outcome> {
                     machine.use();
                     DT_TRY_VOID(machine.nccl_alone());
                     return passed();
                   }});
  for (const Case& c : cases) {
    parts.push_back({"integers: " + c.name, [&machine, c] {
                       return against_reference(machine, c, case_options(c), Values::kIntegers, c.exact ? 0 : 1);
                     }});
  }
  for (const Mode& mode : kModes) {
    for (const Case& c : cases) parts.push_back(reference_part(machine, mode, c));
    for (const Case& c : cases) parts.push_back(fused_part(machine, mode, c));
  }
  return parts;
}

std::vector<Part> small_parts(Machine& machine) {
  std::vector<Part> parts;
  for (const Case& c : exec::test::operator_cases()) {
    if (!is_small(c)) continue;
    parts.push_back(reference_part(machine, kModes[0], c));
    parts.push_back(fused_part(machine, kModes[2], c));
  }
  return parts;
}

}  // namespace dtrain::gpu
