#include "cuda/executor/planned_bytes.h"

#include "cuda/executor/lower.h"
#include "exec/contract.h"

namespace dtrain::cuda {

namespace {

// Stands in for plans of convolutions, which need a device.
class UnknownPlan final : public ConvolutionPlan {
 public:
  [[nodiscard]] size_t workspace_bytes() const override { return 0; }
  [[nodiscard]] Call bind(const ConvolutionPointers&) const override { return {}; }
};

class UnknownPlans final : public ConvolutionRunner {
 public:
  Result<std::shared_ptr<const ConvolutionPlan>> plan(const ConvolutionPass&, bool) override {
    return std::make_shared<UnknownPlan>();
  }
};

// Where a batch would be; nothing reads it.
PassInput imagined_input(const exec::Options& options, LossScale& loss_scale) {
  PassInput input;
  input.labels = &loss_scale.scale;
  input.keys = &loss_scale.skipped;
  input.inputs.assign(options.inputs.size(), {.floats = &loss_scale.scale});
  if (options.dtype == Type::kFloat16) input.loss_scale = &loss_scale;
  return input;
}

// A batch as floats, and in training a second one, which is copied ahead.
size_t batch_bytes(const exec::Options& options, const graph::Shapes& shapes) {
  int64_t floats = std::ssize(shapes.labels);
  for (const InputForm& input : options.inputs) floats += element_count(input.shape);
  const int64_t batches = options.purpose == exec::Options::Purpose::kTraining ? 2 : 1;
  return static_cast<size_t>(batches * options.batch_size * floats) * sizeof(float);
}

}  // namespace

Result<exec::DeviceModule::PlannedBytes> planned_bytes(const graph::Graph& graph, const exec::Options& options) {
  DT_TRY(const graph::Shapes shapes, exec::infer_shapes(graph, options));
  const Layout layout = choose_layout(graph, shapes, options);
  UnknownPlans runner;
  DT_TRY(const GraphPlans plans, plan_convolutions(graph, shapes, layout, options, runner));
  const DeviceParameters parameters(shapes, options.purpose, layout.weights, DeviceParameters::Memory::kImagined);
  LossScale loss_scale;
  const Lowered lowered =
      lower({graph, shapes, options, layout, plans, parameters, imagined_input(options, loss_scale)});
  const exec::MemoryPlan plan = lowered.program.plan_memory(!options.keep_all);
  return exec::DeviceModule::PlannedBytes{
      .parameters = parameters.bytes(),
      .batch = plan.arena_bytes + lowered.program.scratch_bytes() + batch_bytes(options, shapes)};
}

}  // namespace dtrain::cuda
