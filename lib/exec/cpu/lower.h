// Lowers a graph to a program: what differs from other backends (exec/lowering.h). Layouts are chosen at the same time:
// convolutions choose theirs, and all other nodes follow their input.
#pragma once

#include <vector>

#include "exec/cpu/program.h"
#include "exec/lowering.h"
#include "exec/parameter_store.h"

namespace dtrain::exec::cpu {

struct LowerRequest {
  const graph::Graph& graph;
  const graph::Shapes& shapes;
  const Options& options;
  ParameterStore& parameters;
  const Batch* batch;  // the batch of the current pass, owned by the caller; must outlive the program
};

using Lowered = LoweredGraph<Program, ValueId>;  // `none` is kNoValue

Lowered lower(const LowerRequest& request);

// The state while a graph is lowered, used by the operators' functions.
class Lowering : public LoweringBase<Lowering, Program, ValueId> {
 public:
  explicit Lowering(const LowerRequest& request);

  [[nodiscard]] const Fusions& fusions() const { return fusions_; }
  // The current batch, which the executor sets and the steps read.
  [[nodiscard]] const Batch* batch() const { return batch_; }
  [[nodiscard]] const dnnl::engine& engine() const { return program_.engine(); }
  [[nodiscard]] const Md& md(ValueId value) const { return program_.md(value); }

  // The dimensions of a node's output: [n, c, h, w] or [n, c].
  [[nodiscard]] Dims dims(graph::NodeId id) const;
  // The value of input(), in one of the layouts of layout.h, which dtrain's own kernels require.
  ValueId blocked_input(graph::NodeId id, size_t i = 0);

  // The learned tensor or statistic that the node reads as this argument, in canonical layout with dimensions `dims`.
  // kNoValue if the node has no such argument.
  ValueId weight(graph::NodeId id, size_t argument, const Dims& dims);
  // Where the node's backward step must write the gradient of this tensor. If other nodes also read the tensor, it is
  // this node's term of the gradient.
  ValueId gradient_of_weight(graph::NodeId id, size_t argument, const Dims& dims);

  // To be called when a step uses OpenBLAS; see reserve_product_memory().
  void set_uses_openblas() { uses_openblas_ = true; }

  // The gradient with respect to the node's output in this layout: the sum of its terms, of which there is at least
  // one.
  ValueId gradient(graph::NodeId id, const Md& layout);
  // The terms of the gradient with respect to the node's output, in this layout, for kernels that sum the terms
  // themselves. With keep_all there is a single term: the sum.
  std::vector<ValueId> gradient_terms(graph::NodeId id, const Md& layout);

 private:
  friend LoweringBase;
  friend Lowered lower(const LowerRequest& request);
  void await_weights(graph::NodeId) {}  // buckets.h finds the steps that need the weights
  [[nodiscard]] ValueId result_of(graph::NodeId id) const { return output(id); }
  void begin_backward() { program_.begin_backward(); }
  void finish_gradients(graph::NodeId id);

  ParameterStore& parameters_;
  const Batch* batch_;
  Fusions fusions_;
  bool uses_openblas_ = false;
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

// The layout closest to `md` that dtrain's own kernels support: `md` itself or nChw16c.
Md blocked_layout(const Md& md);
// Returns the value as [n, c*h*w], row-major.
ValueId flattened(Lowering& l, graph::NodeId id, ValueId value);

}  // namespace dtrain::exec::cpu
