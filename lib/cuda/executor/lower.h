// Lowers a graph to a program. Each operator's file emits the node's forward steps and returns a function that emits
// its backward steps. Layouts, fusions and convolution plans have been decided before (layout.h, fuse.h,
// convolutions.h).
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
#include "graph/graph.h"

namespace dtrain::cuda {

// Device memory that the executor fills before a pass.
struct PassInput {
  std::vector<DeviceInput> inputs;  // in the order of Shapes::inputs
  const float* labels = nullptr;    // [n, number of labels]
  const uint64_t* keys = nullptr;   // one for each image; null if the network draws no random numbers
  LossScale* loss_scale = nullptr;  // null: the scale is 1
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

// Steps [begin, end) that run without synchronizing with a store. In the forward pass, the weights of `buckets` are
// needed before these steps; in the backward pass, the gradients of `buckets` are complete after them.
struct StepRange {
  size_t begin = 0, end = 0;
  std::vector<size_t> buckets = {};
};

struct Lowered {
  Program program;
  std::vector<StepRange> forward, backward;  // each bucket once, in the order that exec/executor.h requires
  std::vector<Map> outputs;                  // indexed by node; absent if a fusion removed the output
  std::vector<Map> gradients;                // indexed by node; absent if no gradient flows
  std::vector<ValueId> results;              // indexed by head: floats, [n, outputs]
};

Lowered lower(const LowerRequest& request);

// The values of one BatchNorm. gamma is absent if it is fixed to 1. inv_std is used in training, and variance (the
// moving variance) in inference.
struct Norm {
  graph::NodeId id = 0;
  double epsilon = 0;
  Map x;
  ValueId gamma = kNoValue, beta = kNoValue, mean = kNoValue, inv_std = kNoValue, variance = kNoValue;
  bool global = false;  // mean and inv_std are the moving ones, not those of the batch
};

// The state of a lowering. The files that lower the individual operators use it.
class Lowering {
 public:
  explicit Lowering(const LowerRequest& request);

  // A function that emits a node's backward steps. When it is called, all terms of the gradient with respect to the
  // node's output have been contributed.
  using EmitBackward = std::function<void()>;

  [[nodiscard]] bool training() const { return options_.purpose == exec::Options::Purpose::kTraining; }
  [[nodiscard]] Type type() const { return options_.dtype; }
  [[nodiscard]] const Fusions& fusions() const { return fusions_; }
  [[nodiscard]] const LayerPlans& plans(graph::NodeId id) const { return plans_.at(id); }
  [[nodiscard]] const PassInput& pass_input() const { return input_; }
  Program& program() { return program_; }
  [[nodiscard]] size_t input_of(graph::NodeId id) const { return graph::input_of(graph_, shapes_, id); }
  [[nodiscard]] size_t label_of(graph::NodeId id) const { return graph::label_of(graph_, shapes_, id); }
  [[nodiscard]] size_t label_count() const { return shapes_.labels.size(); }

  [[nodiscard]] const graph::Node& node(graph::NodeId id) const { return graph_.node(id); }
  [[nodiscard]] graph::NodeId input_node(graph::NodeId id, size_t i = 0) const { return node(id).data_inputs[i]; }
  // The map that node `id` reads as its input number i. input() returns the map in the order in which it is stored,
  // plain_input() in the order of the node's own shape. packed() returns a dense map with the values of `map`.
  [[nodiscard]] const Map& input(graph::NodeId id, size_t i = 0) const { return outputs_[input_node(id, i)]; }
  Map plain_input(graph::NodeId id, size_t i = 0);
  // The first input as a fully connected layer reads it: in its storage order if the weight is stored to match that
  // order, else in the order of the node's own shape.
  Map dense_input(graph::NodeId id);
  Map packed(graph::NodeId id, const Map& map);
  // The map to which node `id` writes its output: a slice of a Concat's output, or separate memory.
  Map make_output(graph::NodeId id);
  [[nodiscard]] bool writes_into(graph::NodeId id, graph::NodeId concat) const {
    return layout_.slices[id] && layout_.slices[id]->concat == concat;
  }
  [[nodiscard]] const Map& output(graph::NodeId id) const { return outputs_[id]; }
  void set_output(graph::NodeId id, const Map& map) { outputs_[id] = map; }

  // The node's learned tensors and statistics on the device. kNoValue if the node has no such argument.
  ValueId weight(graph::NodeId id, size_t argument);         // canonical float32, for batch normalization
  ValueId stored_weight(graph::NodeId id, size_t argument);  // in the form with which the network computes
  ValueId statistic(graph::NodeId id, size_t argument);
  // The value to which a backward kernel of the node writes the gradient of this parameter; if other nodes also read
  // the parameter, the kernel writes only this node's term. The gradient of a weight has the type and the order in
  // which the weight is stored; all other gradients are float32. finish_bucket() converts the terms to canonical form
  // and adds them up.
  ValueId gradient_of(graph::NodeId id, size_t argument);

  // Remembers a batch normalization whose result a later Add computes in the same kernel.
  void keep_for_sum(const Norm& norm) { norms_.emplace(norm.id, norm); }
  [[nodiscard]] const Norm& norm_for_sum(graph::NodeId id) const { return norms_.at(id); }

  // Whether the node's output depends on a learned tensor that is not frozen (graph::depends_on_training).
  [[nodiscard]] bool depends_on_training(graph::NodeId id) const { return depends_on_training_[id] != 0; }
  // Whether the only reader of the node's output subtracts the mean of the batch from each channel, so that adding a
  // constant to a channel changes nothing.
  [[nodiscard]] bool is_centered(graph::NodeId id) const;
  // Whether the gradient with respect to the node's output is needed.
  [[nodiscard]] bool wants_gradient(graph::NodeId id) const { return layout_.wants_gradient[id] != 0; }
  // Whether the gradient with respect to the node's output has only one image, the sum over all images
  // (Layout::wants_sum).
  [[nodiscard]] bool wants_sum(graph::NodeId id) const { return layout_.wants_sum[id] != 0; }
  // Adds a term to the gradient with respect to `id`'s output; ignored if that gradient is not needed. `own`: nothing
  // else reads the term, so another term may be added to it in its memory.
  void contribute(graph::NodeId id, const Map& term, bool own = false);
  // Removes one of the terms that contribute() has added to the gradient of `id` and returns it, for a kernel that adds
  // it to the term that it computes. Absent if there is none.
  Map take_term(graph::NodeId id);
  // Like take_term, but only a term that may be overwritten and has the form of the node's output without a pitch.
  Map take_own_term(graph::NodeId id);
  // The gradient with respect to the node's output: the sum of its terms. Absent if there are none.
  Map gradient(graph::NodeId id);
  // Emits y = `factor` times the sum of maps of one form, and then max(y, 0) if relu.
  void emit_sum(graph::NodeId id, std::vector<Map> terms, const Map& y, bool relu, double factor = 1);
  // Emits a step that sets `sum` [channels], floats, to the sum of the map's rows.
  void emit_row_sum(graph::NodeId id, const Map& map, ValueId sum);
  // Zeros in device memory that last for the whole pass, at least `bytes`.
  ValueId zeros(size_t bytes);
  // Emits a step that sets the value's bytes to 0.
  void emit_zeros(graph::NodeId id, ValueId value, size_t bytes);

 private:
  friend Lowered lower(const LowerRequest& request);
  EmitBackward lower_node(graph::NodeId id);
  void await_buckets(graph::NodeId id);
  void finish_buckets(graph::NodeId id);
  void finish_bucket(size_t bucket);
  void convert_gradients(graph::NodeId node, size_t first, size_t end);
  void add_gradients(graph::NodeId node, size_t parameter, const std::vector<ValueId>& terms);
  // A result of the network as floats, [n, outputs].
  ValueId result_of(graph::NodeId id);
  [[nodiscard]] size_t bucket_end(size_t bucket) const;
  [[nodiscard]] std::optional<size_t> parameter(graph::NodeId id, size_t argument) const;
  // Permutes the values of a map: from h x w pixels to one pixel of h*w*c channels in canonical order, or back.
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
  std::vector<Map> outputs_;  // indexed by node
  struct Term {
    Map map;
    bool own = false;
  };
  std::vector<std::vector<Term>> terms_;  // indexed by node: terms of its gradient
  ValueId zeros_ = kNoValue;              // as many as the largest call of zeros() needs
  std::map<graph::NodeId, Norm> norms_;
  // For each parameter, the values that are converted to its gradient, in the order of the backward pass. There are
  // several if several nodes read the parameter. Empty if a kernel writes the canonical gradient itself.
  std::vector<std::vector<ValueId>> gradient_terms_;
  std::vector<std::vector<graph::NodeId>> readers_;  // indexed by node
  std::vector<char> depends_on_training_;            // indexed by node
  std::vector<StepRange> forward_, backward_;
  size_t buckets_awaited_ = 0, buckets_left_;
};

// One function per kind of node: emits its forward steps, sets its output and returns the function that emits its
// backward steps.
Lowering::EmitBackward lower_input(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_convolution(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_fully_connected(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_batch_norm(Lowering& l, graph::NodeId id, const graph::BatchNorm& op);
Lowering::EmitBackward lower_activation(Lowering& l, graph::NodeId id, const graph::Activation& op);
Lowering::EmitBackward lower_pooling(Lowering& l, graph::NodeId id, const graph::Pooling& op);
Lowering::EmitBackward lower_concat(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_add(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_flatten(Lowering& l, graph::NodeId id);  // also for Identity
Lowering::EmitBackward lower_scale(Lowering& l, graph::NodeId id, const graph::Scale& op);
Lowering::EmitBackward lower_dropout(Lowering& l, graph::NodeId id, const graph::Dropout& op);
Lowering::EmitBackward lower_response_norm(Lowering& l, graph::NodeId id, const graph::LocalResponseNorm& op);
Lowering::EmitBackward lower_spatial_transformer(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_softmax(Lowering& l, graph::NodeId id, const graph::SoftmaxOutput& op);

}  // namespace dtrain::cuda
