// From a graph to a program: each operator's file emits the node's forward steps and returns what emits its backward
// steps. What is written for one node: layout.h, fuse.h and convolutions.h have decided the rest.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "cuda/executor/convolutions.h"
#include "cuda/executor/device_parameters.h"
#include "cuda/executor/fuse.h"
#include "cuda/executor/layout.h"
#include "cuda/executor/pass_memory.h"
#include "cuda/executor/program.h"
#include "exec/executor.h"

namespace dtrain::cuda {

// Memory that the executor fills before a pass, all on the device.
struct PassInput {
  DeviceImages images;
  const float* labels = nullptr;    // [n]
  LossScale* loss_scale = nullptr;  // absent: 1
  LossScale* search = nullptr;      // where to note that a gradient is not finite; absent: nobody looks
};

struct LowerRequest {
  const graph::Graph& graph;
  const graph::Shapes& shapes;
  const exec::Options& options;
  const Layout& layout;
  const GraphPlans& plans;
  const DeviceParameters& parameters;
  PassInput input;
};

// Steps [begin, end) without a meeting with anybody. Forward, the weights of `buckets` are needed before them;
// backward, the gradients of `buckets` are complete after them.
struct StepRange {
  size_t begin = 0, end = 0;
  std::vector<size_t> buckets = {};
};

struct Lowered {
  Program program;
  std::vector<StepRange> forward, backward;  // all buckets in the order of exec/executor.h, each once
  std::vector<Map> outputs;                  // by node; absent where a fusion left none
  std::vector<Map> gradients;                // by node; absent where none flows
};

Lowered lower(const LowerRequest& request);

// The values of one BatchNorm. gamma: absent if it counts as 1; inv_std in training, variance (the moving one) else.
struct Norm {
  graph::NodeId id = 0;
  double epsilon = 0;
  Map x;
  ValueId gamma = kNoValue, beta = kNoValue, mean = kNoValue, inv_std = kNoValue, variance = kNoValue;
};

// The state of a lowering, for the operators' files.
class Lowering {
 public:
  explicit Lowering(const LowerRequest& request);

  // Emits a node's backward steps. The gradients by its output are there.
  using EmitBackward = std::function<void()>;
  using Role = graph::ParameterInfo::Role;

  [[nodiscard]] bool training() const { return options_.purpose == exec::Options::Purpose::kTraining; }
  [[nodiscard]] Type type() const { return options_.dtype; }
  [[nodiscard]] const Fusions& fusions() const { return fusions_; }
  [[nodiscard]] const LayerPlans& plans(graph::NodeId id) const { return plans_.at(id); }
  [[nodiscard]] const PassInput& pass_input() const { return input_; }
  Program& program() { return program_; }

  [[nodiscard]] const graph::Node& node(graph::NodeId id) const { return graph_.node(id); }
  [[nodiscard]] graph::NodeId input_node(graph::NodeId id, size_t i = 0) const { return node(id).inputs[i]; }
  // The maps that node `id` reads as its input i, as they lie; in the order of the node's own shape; or dense.
  [[nodiscard]] const Map& input(graph::NodeId id, size_t i = 0) const { return outputs_[input_node(id, i)]; }
  Map plain_input(graph::NodeId id, size_t i = 0);
  Map packed(graph::NodeId id, const Map& map);
  // Where node `id` is to write its output: a slice of a concatenation, or memory of its own.
  Map make_output(graph::NodeId id);
  [[nodiscard]] bool writes_into(graph::NodeId id, graph::NodeId concat) const {
    return layout_.slices[id] && layout_.slices[id]->concat == concat;
  }
  [[nodiscard]] const Map& output(graph::NodeId id) const { return outputs_[id]; }
  void set_output(graph::NodeId id, const Map& map) { outputs_[id] = map; }

  // The node's learned tensors and statistics on the device; kNoValue where it has none of that role.
  ValueId weight(graph::NodeId id, Role role);         // canonical float32: batch norm's
  ValueId stored_weight(graph::NodeId id, Role role);  // in the form that the network computes with
  ValueId statistic(graph::NodeId id, Role role);
  // Where a kernel writes the gradient, float32 or, for filters, in the stored form. finish_bucket brings it home.
  ValueId gradient_of(graph::NodeId id, Role role);

  // A batch norm that the Add behind it completes.
  void keep_for_sum(const Norm& norm) { norms_.emplace(norm.id, norm); }
  [[nodiscard]] const Norm& norm_for_sum(graph::NodeId id) const { return norms_.at(id); }

  // Whether a gradient by the node's output is of use to anybody.
  [[nodiscard]] bool wants_gradient(graph::NodeId id) const { return layout_.wants_gradient[id] != 0; }
  // Adds a term of the gradient by `id`'s output. Dropped where nobody wants it.
  void contribute(graph::NodeId id, const Map& term);
  // One of the terms that are there already, for a kernel that adds it to the term which it computes. Absent if none.
  Map take_term(graph::NodeId id);
  // The gradient by the node's output: the sum of its terms. Absent if there are none.
  Map gradient(graph::NodeId id);
  // `factor` times the sum of maps of one form, and max(that, 0) if relu, in `y`.
  void emit_sum(graph::NodeId id, std::vector<Map> terms, const Map& y, bool relu, double factor = 1);

 private:
  friend Lowered lower(const LowerRequest& request);
  EmitBackward lower_node(graph::NodeId id);
  void await_buckets(graph::NodeId id);
  void finish_buckets(graph::NodeId id);
  void finish_bucket(size_t bucket);
  [[nodiscard]] size_t bucket_end(size_t bucket) const;
  [[nodiscard]] std::optional<size_t> parameter(graph::NodeId id, Role role) const;
  // The map in another order of the same numbers: from h x w pixels to one of h*w*c channels in canonical order, or
  // back.
  Map reordered(graph::NodeId id, const Map& map, const MapForm& form);

  const graph::Graph& graph_;
  const graph::Shapes& shapes_;
  const exec::Options& options_;
  const Layout& layout_;
  const GraphPlans& plans_;
  const DeviceParameters& parameters_;
  PassInput input_;
  Fusions fusions_;
  Program program_;
  std::vector<Map> outputs_;             // by node
  std::vector<std::vector<Map>> terms_;  // by node
  std::map<graph::NodeId, Norm> norms_;
  std::vector<ValueId> gradient_values_;  // by parameter: what its gradient is converted from; kNoValue: nothing
  std::vector<StepRange> forward_, backward_;
  size_t buckets_awaited_ = 0, buckets_left_;
};

// One function for each kind of node: emits its forward steps, sets its output, returns its backward.
Lowering::EmitBackward lower_input(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_convolution(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_fully_connected(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_batch_norm(Lowering& l, graph::NodeId id, const graph::BatchNorm& op);
Lowering::EmitBackward lower_activation(Lowering& l, graph::NodeId id, const graph::Activation& op);
Lowering::EmitBackward lower_pooling(Lowering& l, graph::NodeId id, const graph::Pooling& op);
Lowering::EmitBackward lower_concat(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_add(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_flatten(Lowering& l, graph::NodeId id);  // and Identity
Lowering::EmitBackward lower_scale(Lowering& l, graph::NodeId id, const graph::Scale& op);
Lowering::EmitBackward lower_softmax(Lowering& l, graph::NodeId id, const graph::SoftmaxOutput& op);

}  // namespace dtrain::cuda
