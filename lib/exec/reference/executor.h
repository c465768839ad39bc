// The reference executor: keeps every node's output and gradient and runs one plain loop after the other. What it adds
// to the Executor interface is for the check and the tests: access to tensors in the type of the arithmetic, and
// running node by node.
#pragma once

#include <memory>
#include <vector>

#include "exec/executor.h"
#include "exec/reference/batch_norm.h"
#include "exec/reference/spans.h"
#include "graph/graph.h"
#include "tensor/buffer.h"
#include "tensor/parameter_memory.h"

namespace dtrain::exec::reference {

// T is float or double. Parameters and their gradients are float32 in either case; with double, all arithmetic in
// between is double.
template <class T>
class ReferenceExecutor final : public Executor {
 public:
  static Result<std::unique_ptr<ReferenceExecutor>> compile(const graph::Graph& graph, const Options& options,
                                                            Executor* weights_of);

  Result<> forward(const Batch& batch, const WeightsWait& wait) override;
  Result<> backward(const GradientReady& ready) override;
  const ParameterView& parameters() override { return view_; }
  std::span<const float> probabilities() override { return probabilities_.span(); }
  std::vector<float> node_output(graph::NodeId node) override;
  std::vector<float> node_gradient(graph::NodeId node) override;
  size_t memory_bytes() const override;

  // [n, c, h, w] of a node's output, and of the loss's gradient by it, which is empty if none flows.
  Out<T> output(graph::NodeId node) { return nodes_[node].y.span(); }
  Out<T> gradient(graph::NodeId node) { return nodes_[node].dy.span(); }
  // The i-th parameter of a node and its gradient, in T; empty if the node has fewer.
  In<T> parameter(graph::NodeId node, size_t i) const;
  Out<T> parameter_gradient(graph::NodeId node, size_t i);
  // The statistics of a BatchNorm's last training forward pass.
  BatchStatistics<T> statistics(graph::NodeId node) { return {nodes_[node].mean.span(), nodes_[node].inv_std.span()}; }
  const graph::Shapes& shapes() const { return shapes_; }
  int64_t batch_size() const { return options_.batch_size; }
  const std::vector<graph::NodeId>& order() const { return order_; }

  // Forward and backward in single steps: begin_forward, then forward_node for each node of order(); begin_backward,
  // then backward_node in reverse order. Between the steps the caller may overwrite outputs and gradients.
  Result<> begin_forward(const Batch& batch);
  void load_parameters();  // loads all parameters, instead of waiting bucket by bucket
  void forward_node(graph::NodeId node);
  void begin_backward();
  void backward_node(graph::NodeId node);  // afterwards parameters() has the gradients of the node's own parameters

 private:
  // A node's computed values. `parameters` and `gradients` are its parameters and their gradients in T, in declared
  // order.
  struct NodeState {
    Extent extent;
    Buffer<T> y, dy, mean, inv_std;
    size_t first_parameter = 0, first_statistic = 0;
    std::vector<Buffer<T>> parameters, gradients;
  };

  ReferenceExecutor(const graph::Graph& graph, const Options& options, graph::Shapes shapes);
  void share_parameters(Executor& owner);
  void allocate_nodes();
  bool training() const { return options_.purpose == Options::Purpose::kTraining; }

  void load_bucket(size_t bucket);
  void load_parameter(size_t index);
  void store_gradients(const NodeState& state);
  In<T> input(graph::NodeId node, size_t i = 0) { return output(graph_.node(node).data_inputs[i]); }
  Out<T> input_gradient(graph::NodeId node, size_t i = 0) { return gradient(graph_.node(node).data_inputs[i]); }
  const Extent& input_extent(graph::NodeId node) const { return nodes_[graph_.node(node).data_inputs[0]].extent; }
  std::span<float> statistic(graph::NodeId node, size_t i);

  // Used by forward_node and backward_node. `sum` computes an Add or, with a single input, a Flatten, Identity or
  // Scale.
  void batch_norm(graph::NodeId node, const graph::BatchNorm& op);
  void concat(graph::NodeId node);
  void concat_gradient(graph::NodeId node);
  void sum(graph::NodeId node, double factor = 1);
  void sum_gradient(graph::NodeId node, double factor = 1);

  graph::Graph graph_;
  Options options_;
  graph::Shapes shapes_;
  std::vector<graph::NodeId> order_;
  std::vector<NodeState> nodes_;  // by NodeId
  ParameterMemory parameters_;    // empty if another executor owns them
  ParameterView view_;
  Buffer<float> images_, labels_, probabilities_;
};

extern template class ReferenceExecutor<float>;
extern template class ReferenceExecutor<double>;

}  // namespace dtrain::exec::reference
