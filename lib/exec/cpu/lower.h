// Translates a graph into a program. The function for each operator emits the node's forward steps and returns a
// function that emits its backward steps. Layouts are chosen at the same time: convolutions choose theirs, and all
// other nodes follow their input.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "exec/cpu/program.h"
#include "exec/executor.h"
#include "exec/fuse.h"
#include "exec/parameter_store.h"
#include "graph/graph.h"

namespace dtrain::exec::cpu {

struct LowerRequest {
  const graph::Graph& graph;
  const graph::Shapes& shapes;
  const Options& options;
  ParameterStore& parameters;
  const Batch* batch;  // the batch of the current pass, owned by the caller; must outlive the program
};

// What the executor needs to know about a lowered graph.
struct Lowered {
  Program program;
  std::vector<ValueId> outputs;  // the output of each node; kNoValue if fusion removed it
  // The gradient with respect to each node's output; kNoValue if no gradient flows to the node.
  std::vector<ValueId> gradients;
  std::vector<ValueId> results;  // the network's results, indexed by head
};

Lowered lower(const LowerRequest& request);

// The state while a graph is lowered, used by the operators' functions.
class Lowering {
 public:
  explicit Lowering(const LowerRequest& request);

  // Emits a node's backward steps. At that time the gradients with respect to its output are available (gradient,
  // gradient_terms).
  using EmitBackward = std::function<void()>;

  [[nodiscard]] bool training() const { return options_.purpose == Options::Purpose::kTraining; }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const Fusions& fusions() const { return fusions_; }
  Program& program() { return program_; }
  // The current batch, which the executor sets and the steps read.
  [[nodiscard]] const Batch* batch() const { return batch_; }
  [[nodiscard]] const dnnl::engine& engine() const { return program_.engine(); }
  [[nodiscard]] const Md& md(ValueId value) const { return program_.md(value); }

  [[nodiscard]] const graph::Node& node(graph::NodeId id) const { return graph_.node(id); }
  [[nodiscard]] size_t input_of(graph::NodeId id) const { return graph::input_of(graph_, shapes_, id); }
  [[nodiscard]] size_t label_of(graph::NodeId id) const { return graph::label_of(graph_, shapes_, id); }
  [[nodiscard]] size_t label_count() const { return shapes_.labels.size(); }
  // The dimensions of a node's output: [n, c, h, w] or [n, c].
  [[nodiscard]] Dims dims(graph::NodeId id) const;
  [[nodiscard]] graph::NodeId input_node(graph::NodeId id, size_t i = 0) const { return node(id).data_inputs[i]; }
  // The value that node `id` reads as its input `i`, in the layout in which it was written.
  [[nodiscard]] ValueId input(graph::NodeId id, size_t i = 0) const { return outputs_[input_node(id, i)]; }
  // The value of input(), in one of the layouts of layout.h, which dtrain's own kernels require.
  ValueId blocked_input(graph::NodeId id, size_t i = 0);
  void set_output(graph::NodeId id, ValueId value) { outputs_[id] = value; }

  // The learned tensor or statistic that the node reads as this argument, in canonical layout with dimensions `dims`.
  // kNoValue if the node has no such argument.
  ValueId weight(graph::NodeId id, size_t argument, const Dims& dims);
  // Where the node's backward step must write the gradient of this tensor. If other nodes also read the tensor, it is
  // this node's term of the gradient.
  ValueId gradient_of_weight(graph::NodeId id, size_t argument, const Dims& dims);

  // To be called when a step uses OpenBLAS; see reserve_product_memory().
  void set_uses_openblas() { uses_openblas_ = true; }

  // Whether any step needs the gradient with respect to the node's output.
  [[nodiscard]] bool wants_gradient(graph::NodeId id) const { return wants_gradient_[id]; }
  // Whether the node depends on a learned tensor that is not frozen (graph::depends_on_training).
  [[nodiscard]] bool depends_on_training(graph::NodeId id) const { return depends_on_training_[id] != 0; }
  // Adds a term to the gradient with respect to the output of node `id`. Does nothing if no step needs that gradient.
  void contribute(graph::NodeId id, ValueId term);
  // The gradient with respect to the node's output in this layout, which is the sum of its terms. kNoValue if it has
  // none.
  ValueId gradient(graph::NodeId id, const Md& layout);
  // The terms of the gradient with respect to the node's output, in this layout, for kernels that sum the terms
  // themselves. With keep_all there is a single term: the sum.
  std::vector<ValueId> gradient_terms(graph::NodeId id, const Md& layout);

  Lowered finish() &&;

 private:
  friend Lowered lower(const LowerRequest& request);
  EmitBackward lower_node(graph::NodeId id);
  // Completes the gradients of those parameters that no later backward step reads, because this node is the first to
  // read them in the forward pass. To be called after the backward steps of the node.
  void finish_gradients(graph::NodeId id);

  const graph::Graph& graph_;
  const graph::Shapes& shapes_;
  const Options& options_;
  ParameterStore& parameters_;
  const Batch* batch_;
  Fusions fusions_;
  Program program_;
  std::vector<ValueId> outputs_;
  // Terms of the gradient with respect to each node's output, indexed by node.
  std::vector<std::vector<ValueId>> terms_;
  std::vector<char> wants_gradient_;       // for each node, the result of graph::wants_gradient; indexed by node
  std::vector<char> depends_on_training_;  // for each node, the result of graph::depends_on_training; indexed by node
  // For each parameter, the terms that the nodes' backward steps have written, in the order of the steps.
  std::vector<std::vector<ValueId>> weight_terms_;
  bool uses_openblas_ = false;
};

// One function per kind of node: emits its forward steps, sets its output and returns the function that emits its
// backward steps.
Lowering::EmitBackward lower_input(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_convolution(Lowering& l, graph::NodeId id, const graph::Convolution& op);
Lowering::EmitBackward lower_dense(Lowering& l, graph::NodeId id, const graph::FullyConnected& op);
Lowering::EmitBackward lower_batch_norm(Lowering& l, graph::NodeId id, const graph::BatchNorm& op);
Lowering::EmitBackward lower_activation(Lowering& l, graph::NodeId id, const graph::Activation& op);
Lowering::EmitBackward lower_pooling(Lowering& l, graph::NodeId id, const graph::Pooling& op);
Lowering::EmitBackward lower_concat(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_add(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_flatten(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_identity(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_scale(Lowering& l, graph::NodeId id, const graph::Scale& op);
Lowering::EmitBackward lower_dropout(Lowering& l, graph::NodeId id, const graph::Dropout& op);
Lowering::EmitBackward lower_local_response_norm(Lowering& l, graph::NodeId id, const graph::LocalResponseNorm& op);
Lowering::EmitBackward lower_spatial_transformer(Lowering& l, graph::NodeId id);
Lowering::EmitBackward lower_softmax(Lowering& l, graph::NodeId id, const graph::SoftmaxOutput& op);

// The layout closest to `md` that dtrain's own kernels support: `md` itself or nChw16c.
Md blocked_layout(const Md& md);
// Returns the value as [n, c*h*w], row-major.
ValueId flattened(Lowering& l, graph::NodeId id, ValueId value);

}  // namespace dtrain::exec::cpu
