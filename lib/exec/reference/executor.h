// The reference executor: keeps every node's output and gradient and runs one plain loop after the other. Its additions
// to the Executor interface are for the check and the tests: access to tensors in the type of the arithmetic, and
// running node by node.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "exec/executor.h"
#include "exec/reference/loops.h"
#include "exec/sampling.h"
#include "graph/graph.h"
#include "tensor/buffer.h"
#include "tensor/parameter_memory.h"

namespace dtrain::exec::reference {

// T is float or double. Parameters and their gradients are float32 in both cases; with double, all other arithmetic is
// double.
template <class T>
class ReferenceExecutor final : public Executor {
 public:
  static Result<std::unique_ptr<ReferenceExecutor>> compile(const graph::Graph& graph, const Options& options,
                                                            Executor* weights_of);

  Result<> forward(const Batch& batch, const WeightsWait& wait) override;
  Result<> backward(const GradientReady& ready) override;
  const ParameterView& parameters() override { return view_; }
  size_t heads() const override { return shapes_.heads.size(); }
  std::span<const float> result(size_t head) override { return results_[head].span(); }
  std::vector<float> node_output(graph::NodeId node) override;
  std::vector<float> node_gradient(graph::NodeId node) override;
  size_t memory_bytes() const override;

  // A node's output in [n, c, h, w] order, and the gradient of the loss with respect to it, which is empty if none
  // flows.
  Out<T> output(graph::NodeId node) { return of_node(node).value.span(); }
  Out<T> gradient(graph::NodeId node) { return of_node(node).gradient.span(); }
  // The learned tensor that a node reads as this argument, converted to T; empty if there is none.
  In<T> parameter(graph::NodeId node, size_t argument) const;
  // The gradient of a parameter, in the type T. Complete after backward_node() of the first node in order() that reads
  // the parameter.
  In<T> parameter_gradient(size_t parameter) const { return terms_[parameter].back().span(); }
  // The statistics of a BatchNorm's last training forward pass.
  BatchStatistics<T> statistics(graph::NodeId node) { return {nodes_[node].mean.span(), nodes_[node].inv_std.span()}; }
  const graph::Shapes& shapes() const { return shapes_; }
  int64_t batch_size() const { return options_.batch_size; }
  const std::vector<graph::NodeId>& order() const { return order_; }

  // These functions run the forward and backward pass node by node: begin_forward, then forward_node for each node of
  // order(); begin_backward, then backward_node in reverse order. Between the calls the caller may overwrite outputs
  // and gradients.
  Result<> begin_forward(const Batch& batch);
  void load_parameters();  // loads all parameters at once, instead of waiting bucket by bucket
  void forward_node(graph::NodeId node);
  void begin_backward();
  // Runs the node's backward step. Afterwards parameters() has the gradients of those parameters that this node is the
  // first in order() to read.
  void backward_node(graph::NodeId node);

 private:
  // An output of a node or a learned tensor.
  struct Tensor {
    Extent extent;              // extent of the tensor; set only for an output
    Buffer<T> value, gradient;  // the gradient of a learned tensor is in terms_ instead of here
  };
  struct NodeState {
    Buffer<T> mean, inv_std;  // statistics of the batch; set only for a BatchNorm
    // The parameters that this node is the first to read, as an interval of the list of parameters. The intervals of
    // successive nodes follow each other.
    size_t first_parameter = 0, end_parameter = 0;
  };

  ReferenceExecutor(const graph::Graph& graph, const Options& options, graph::Shapes shapes);
  void share_parameters(Executor& owner);
  void allocate_nodes();
  void allocate_parameters();
  bool training() const { return options_.purpose == Options::Purpose::kTraining; }

  void load_bucket(size_t bucket);
  void load_parameter(size_t index);
  // Where a node's backward step stores its part of a parameter's gradient; empty if the argument is not a parameter.
  Out<T> gradient_term(graph::NodeId node, size_t argument);
  void compute_backward(graph::NodeId node);
  void finish_gradients(const NodeState& state);

  Tensor& of_node(graph::NodeId node) { return tensors_[graph_.tensor(graph::Edge{node}).index]; }
  const Extent& extent(graph::NodeId node) const { return tensors_[graph_.tensor(graph::Edge{node}).index].extent; }
  // The index among the parameters; nullopt if the argument is not a learned tensor.
  std::optional<size_t> parameter_index(graph::NodeId node, size_t argument) const;
  In<T> input(graph::NodeId node, size_t i = 0) { return output(graph_.node(node).data_inputs[i]); }
  Out<T> input_gradient(graph::NodeId node, size_t i = 0) { return gradient(graph_.node(node).data_inputs[i]); }
  const Extent& input_extent(graph::NodeId node) const { return extent(graph_.node(node).data_inputs[0]); }
  std::span<float> statistic(graph::NodeId node, size_t argument);

  // Called by forward_node() and compute_backward(). `sum` computes an Add or, with a single input, a Flatten, Identity
  // or Scale.
  void batch_norm(graph::NodeId node, const graph::BatchNorm& op);
  void dropout(graph::NodeId node, const graph::Dropout& op);
  Sampling sampling(graph::NodeId node) const;
  void sample(graph::NodeId node);
  void sample_gradient(graph::NodeId node);
  void concat(graph::NodeId node);
  void concat_gradient(graph::NodeId node);
  void sum(graph::NodeId node, double factor = 1);
  void sum_gradient(graph::NodeId node, double factor = 1);

  graph::Graph graph_;
  Options options_;
  graph::Shapes shapes_;
  std::vector<graph::NodeId> order_;
  std::vector<char> depends_on_training_;  // for each node, the result of graph::depends_on_training; indexed by node
  std::vector<Tensor> tensors_;            // outputs and learned tensors, indexed by TensorId
  std::vector<NodeState> nodes_;           // what is stored for each node, indexed by NodeId
  // For each parameter, one term of its gradient per use, in the order of the uses. In the end the last term holds
  // their sum, which is computed in the order in which the backward pass visits the nodes.
  std::vector<std::vector<Buffer<T>>> terms_;
  ParameterMemory parameters_;  // this executor's parameters; empty if another executor owns them
  ParameterView view_;
  // The batch's values for each input and label, and the result of each head.
  std::vector<Buffer<float>> inputs_, labels_, results_;
  Buffer<uint64_t> keys_;  // the keys of the batch; empty if the network draws no random numbers
};

extern template class ReferenceExecutor<float>;
extern template class ReferenceExecutor<double>;

}  // namespace dtrain::exec::reference
