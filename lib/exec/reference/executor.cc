#include "exec/reference/executor.h"

#include <algorithm>

#include "exec/contract.h"
#include "graph/flow.h"
#include "tensor/buckets.h"

namespace dtrain::exec::reference {

namespace {

using graph::NodeId;

Extent extent_of(int64_t batch, const Shape& shape) {
  return shape.size() == 3 ? Extent{batch, shape[0], shape[1], shape[2]} : Extent{batch, shape[0], 1, 1};
}

}  // namespace

template <class T>
Result<std::unique_ptr<ReferenceExecutor<T>>> ReferenceExecutor<T>::compile(const graph::Graph& graph,
                                                                            const Options& options,
                                                                            Executor* weights_of) {
  DT_TRY(graph::Shapes shapes, graph::infer_shapes(graph, options.image));
  check_options(options, shapes);
  DT_TRY_VOID(check_unshared(graph, shapes));
  DT_TRY_VOID(check_float32(options));
  std::unique_ptr<ReferenceExecutor> executor(new ReferenceExecutor(graph, options, std::move(shapes)));
  if (weights_of == nullptr) {
    executor->parameters_ = parameter_memory(executor->shapes_, options.purpose);
    executor->view_ = executor->parameters_.view();
  } else {
    executor->share_parameters(*weights_of);
  }
  executor->allocate_nodes();
  return executor;
}

template <class T>
ReferenceExecutor<T>::ReferenceExecutor(const graph::Graph& graph, const Options& options, graph::Shapes shapes)
    : graph_(graph), options_(options), shapes_(std::move(shapes)), order_(graph.canonical_order()) {}

template <class T>
void ReferenceExecutor<T>::share_parameters(Executor& owner) {
  check_same_parameters(owner.parameters(), shapes_);
  view_ = training() ? owner.parameters() : without_gradients(owner.parameters());
}

template <class T>
void ReferenceExecutor<T>::allocate_nodes() {
  nodes_.resize(graph_.nodes().size());
  for (const NodeId id : order_) {
    nodes_[id].extent = extent_of(options_.batch_size, shapes_.output[id]);
    nodes_[id].y = Buffer<T>(nodes_[id].extent.count());
    if (!std::holds_alternative<graph::BatchNorm>(graph_.node(id).op)) continue;
    nodes_[id].mean = Buffer<T>(static_cast<size_t>(nodes_[id].extent.c));
    nodes_[id].inv_std = Buffer<T>(static_cast<size_t>(nodes_[id].extent.c));
  }
  for (size_t i = shapes_.parameters.size(); i-- > 0;) {
    NodeState& state = nodes_[shapes_.parameters[i].uses[0].node];
    const auto count = static_cast<size_t>(element_count(shapes_.parameters[i].shape));
    state.first_parameter = i;
    state.parameters.emplace_back(count);
    if (training()) state.gradients.emplace_back(count);
  }
  for (NodeState& state : nodes_) {  // they were filled from the last one on
    std::reverse(state.parameters.begin(), state.parameters.end());
    std::reverse(state.gradients.begin(), state.gradients.end());
  }
  for (size_t i = shapes_.statistics.size(); i-- > 0;) nodes_[shapes_.statistics[i].uses[0].node].first_statistic = i;
  const std::vector<char> wants_gradient = graph::wants_gradient(graph_, shapes_);
  for (const NodeId id : order_) {
    if (wants_gradient[id] && training()) nodes_[id].dy = Buffer<T>(nodes_[id].y.size());
  }
  images_ = Buffer<float>(static_cast<size_t>(options_.batch_size * element_count(options_.image)));
  labels_ = Buffer<float>(static_cast<size_t>(options_.batch_size));
  probabilities_ = Buffer<float>(nodes_[graph_.output()].y.size());
}

template <class T>
Result<> ReferenceExecutor<T>::begin_forward(const Batch& batch) {
  DT_TRY_VOID(check_batch(batch, options_, shapes_.classes));
  std::copy(batch.labels.begin(), batch.labels.end(), labels_.data());
  copy_numbers(batch, options_, images_.span());
  for (const NodeId id : order_) {
    if (!std::holds_alternative<graph::Input>(graph_.node(id).op)) continue;
    std::ranges::copy(images_.span(), nodes_[id].y.data());
  }
  return {};
}

template <class T>
Result<> ReferenceExecutor<T>::forward(const Batch& batch, const WeightsWait& wait) {
  DT_TRY_VOID(begin_forward(batch));
  size_t buckets_loaded = 0;
  for (const NodeId id : order_) {
    const size_t needed = nodes_[id].first_parameter + nodes_[id].parameters.size();
    const bool reads = !nodes_[id].parameters.empty();
    while (reads && buckets_loaded < options_.bucket_begin.size() && options_.bucket_begin[buckets_loaded] < needed) {
      DT_TRY_VOID(wait(buckets_loaded), "before node '{}'", graph_.node(id).name);
      load_bucket(buckets_loaded++);
    }
    forward_node(id);
  }
  return {};
}

template <class T>
Result<> ReferenceExecutor<T>::backward(const GradientReady& ready) {
  begin_backward();
  size_t buckets_left = options_.bucket_begin.size();
  for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
    backward_node(*id);
    if (nodes_[*id].parameters.empty()) continue;
    // Nodes and parameters are in the same order, so everything from this node's first parameter on is complete.
    while (buckets_left > 0 && options_.bucket_begin[buckets_left - 1] >= nodes_[*id].first_parameter) {
      DT_TRY_VOID(ready(--buckets_left), "after node '{}'", graph_.node(*id).name);
    }
  }
  return {};
}

template <class T>
void ReferenceExecutor<T>::begin_backward() {
  DT_CHECK(training(), "an inference executor has no backward pass");
  for (NodeState& state : nodes_) std::fill(state.dy.span().begin(), state.dy.span().end(), T{0});
}

template <class T>
void ReferenceExecutor<T>::load_bucket(size_t bucket) {
  const std::vector<size_t>& begin = options_.bucket_begin;
  const size_t end = bucket_end(begin, bucket, view_.parameters.size());
  for (size_t i = begin[bucket]; i < end; i++) load_parameter(i);
}

template <class T>
void ReferenceExecutor<T>::load_parameters() {
  for (size_t i = 0; i < view_.parameters.size(); i++) load_parameter(i);
}

// Copies even if T is float, because the caller may change the weights once backward has reported them ready.
template <class T>
void ReferenceExecutor<T>::load_parameter(size_t index) {
  NodeState& state = nodes_[shapes_.parameters[index].uses[0].node];
  const std::span<float> weight = view_.parameters[index].weight;
  std::copy(weight.begin(), weight.end(), state.parameters[index - state.first_parameter].data());
}

template <class T>
void ReferenceExecutor<T>::store_gradients(const NodeState& state) {
  for (size_t i = 0; i < state.gradients.size(); i++) {
    const std::span<const T> computed = state.gradients[i].span();
    const std::span<float> gradient = view_.parameters[state.first_parameter + i].gradient;
    std::transform(computed.begin(), computed.end(), gradient.begin(), [](T x) { return static_cast<float>(x); });
  }
}

template <class T>
In<T> ReferenceExecutor<T>::parameter(NodeId node, size_t i) const {
  const std::vector<Buffer<T>>& parameters = nodes_[node].parameters;
  return i < parameters.size() ? parameters[i].span() : In<T>{};
}

template <class T>
Out<T> ReferenceExecutor<T>::parameter_gradient(NodeId node, size_t i) {
  std::vector<Buffer<T>>& gradients = nodes_[node].gradients;
  return i < gradients.size() ? gradients[i].span() : Out<T>{};
}

template <class T>
std::span<float> ReferenceExecutor<T>::statistic(NodeId node, size_t i) {
  return view_.statistics[nodes_[node].first_statistic + i].weight;
}

template <class T>
std::vector<float> ReferenceExecutor<T>::node_output(NodeId node) {
  return {output(node).begin(), output(node).end()};
}

template <class T>
std::vector<float> ReferenceExecutor<T>::node_gradient(NodeId node) {
  return {gradient(node).begin(), gradient(node).end()};
}

template <class T>
size_t ReferenceExecutor<T>::memory_bytes() const {
  size_t numbers = 0;
  for (const NodeState& state : nodes_) {
    numbers += state.y.size() + state.dy.size() + state.mean.size() + state.inv_std.size();
    for (const Buffer<T>& p : state.parameters) numbers += p.size();
    for (const Buffer<T>& g : state.gradients) numbers += g.size();
  }
  return numbers * sizeof(T) + (images_.size() + labels_.size() + probabilities_.size()) * sizeof(float);
}

// forward_node and backward_node are instantiated in operators.cc.
template class ReferenceExecutor<float>;
template class ReferenceExecutor<double>;

}  // namespace dtrain::exec::reference
