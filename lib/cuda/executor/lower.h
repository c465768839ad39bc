// Lowers a graph to a program: what differs from other backends (exec/lowering.h). Layouts, fusions and convolution
// plans have been decided before (layout.h, fuse.h, convolutions.h).
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "cuda/executor/convolutions.h"
#include "cuda/executor/device_parameters.h"
#include "cuda/executor/fuse.h"
#include "cuda/executor/layout.h"
#include "cuda/executor/pass_memory.h"
#include "cuda/executor/program.h"
#include "exec/lowering.h"

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

// `none` is a Map that does not exist. Results are floats, [n, outputs].
struct Lowered : exec::LoweredGraph<Program, Map> {
  std::vector<StepRange> forward, backward;  // each bucket once, in the order that exec/executor.h requires
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
class Lowering : public exec::LoweringBase<Lowering, Program, Map> {
 public:
  explicit Lowering(const LowerRequest& request);

  [[nodiscard]] Type type() const { return options_.dtype; }
  [[nodiscard]] const Fusions& fusions() const { return fusions_; }
  [[nodiscard]] const LayerPlans& plans(graph::NodeId id) const { return plans_.at(id); }
  [[nodiscard]] const PassInput& pass_input() const { return input_; }

  // Like input(), which returns the map in the order in which it is stored, but in the order of the node's own shape.
  Map plain_input(graph::NodeId id, size_t i = 0);
  // The first input as a fully connected layer reads it: in its storage order if the weight is stored to match that
  // order, else in the order of the node's own shape.
  Map dense_input(graph::NodeId id);
  // A dense map with the values of `map`.
  Map packed(graph::NodeId id, const Map& map);
  // The map to which node `id` writes its output: a slice of a Concat's output, or separate memory.
  Map make_output(graph::NodeId id);
  [[nodiscard]] bool writes_into(graph::NodeId id, graph::NodeId concat) const {
    return layout_.slices[id] && layout_.slices[id]->concat == concat;
  }

  // The node's learned tensors and statistics on the device. kNoValue if the node has no such argument.
  ValueId weight(graph::NodeId id, size_t argument);         // canonical float32, for batch normalization
  ValueId stored_weight(graph::NodeId id, size_t argument);  // in the form with which the network computes
  ValueId statistic(graph::NodeId id, size_t argument);
  // The value to which a backward kernel of the node writes the gradient of this parameter; if other nodes also read
  // the parameter, the kernel writes only this node's term. The gradient of a weight has the type and the order in
  // which the weight is stored; all other gradients are float32. finish_gradients() converts the terms to canonical
  // form and adds them up.
  ValueId gradient_of(graph::NodeId id, size_t argument);

  // The value to which the only reader of a layer's output writes the gradient of the layer's bias, if it can compute
  // it together with the gradient of that output. The layer then does not compute it. kNoValue if the layer has no
  // bias, or another node also reads the output.
  ValueId take_bias_gradient(graph::NodeId layer);
  [[nodiscard]] bool has_bias_gradient(graph::NodeId layer) const { return has_bias_gradient_[layer] != 0; }

  // Remembers a batch normalization whose result a later Add computes in the same kernel.
  void keep_for_sum(const Norm& norm) { norms_.emplace(norm.id, norm); }
  [[nodiscard]] const Norm& norm_for_sum(graph::NodeId id) const { return norms_.at(id); }

  // Whether the only reader of the node's output subtracts the mean of the batch from each channel, so that adding a
  // constant to a channel changes nothing.
  [[nodiscard]] bool is_centered(graph::NodeId id) const;
  // Whether the gradient with respect to the node's output has only one image, the sum over all images
  // (Layout::wants_sum).
  [[nodiscard]] bool wants_sum(graph::NodeId id) const { return layout_.wants_sum[id] != 0; }
  // Like LoweringBase::contribute, but the term may be a vector for a node whose output is stored as maps.
  void contribute(graph::NodeId id, const Map& term, bool own = false);
  // Removes one of the terms that contribute() has added to the gradient of `id` and returns it, for a kernel that adds
  // it to the term that it computes. Absent if there is none.
  Map take_term(graph::NodeId id);
  // Like take_term, but only a term that may be overwritten and has the form of the node's output without a pitch.
  Map take_own_term(graph::NodeId id);
  // The gradient with respect to the node's output: the sum of its terms, of which there is at least one.
  Map gradient(graph::NodeId id);
  // Emits y = `factor` times the sum of maps of one form, and then max(y, 0) if relu.
  void emit_sum(graph::NodeId id, std::vector<Map> terms, const Map& y, bool relu, double factor = 1);
  // Emits a step that sets `sum` [channels], floats, to the sum of the map's rows.
  void emit_row_sum(graph::NodeId id, const Map& map, ValueId sum);
  // Emits a step that sets the value's bytes to 0.
  void emit_zeros(graph::NodeId id, ValueId value, size_t bytes);

 private:
  friend LoweringBase;
  friend Lowered lower(const LowerRequest& request);
  void await_weights(graph::NodeId id);
  // A result of the network as floats, [n, outputs].
  ValueId result_of(graph::NodeId id);
  void begin_backward();
  void finish_gradients(graph::NodeId id);
  void finish_bucket(size_t bucket);
  // Ends the last of the ranges before the next step, and begins another one there.
  void begin_range(std::vector<StepRange>& ranges) const;
  void convert_gradients(graph::NodeId node, size_t first, size_t end);
  void add_gradients(graph::NodeId node, size_t parameter, const std::vector<ValueId>& terms);
  [[nodiscard]] size_t bucket_end(size_t bucket) const;
  [[nodiscard]] std::optional<size_t> parameter(graph::NodeId id, size_t argument) const;
  // Permutes the values of a map: from h x w pixels to one pixel of h*w*c channels in canonical order, or back.
  Map reordered(graph::NodeId id, const Map& map, const MapForm& form);

  const Layout& layout_;
  const GraphPlans& plans_;
  const DeviceParameters& parameters_;
  PassInput input_;
  Fusions fusions_;
  std::map<graph::NodeId, Norm> norms_;
  std::vector<char> has_bias_gradient_;              // indexed by node: see take_bias_gradient()
  std::vector<std::vector<graph::NodeId>> readers_;  // indexed by node
  std::vector<StepRange> forward_, backward_;
  size_t buckets_awaited_ = 0, buckets_left_;
};

// The steps of each operator; see exec/lowering.h.
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::Input& op);
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::Convolution& op);
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::FullyConnected& op);
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::BatchNorm& op);
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::Activation& op);
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::Pooling& op);
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::Concat& op);
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::Add& op);
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::Flatten& op);
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::Identity& op);
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::Scale& op);
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::Dropout& op);
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::LocalResponseNorm& op);
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::SpatialTransformer& op);
Lowering::EmitBackward lower_node(Lowering& l, graph::NodeId id, const graph::SoftmaxOutput& op);

}  // namespace dtrain::cuda
