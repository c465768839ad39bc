#include "exec/reference/executor.h"

#include <algorithm>

#include "exec/contract.h"
#include "exec/reference/loops.h"
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
  DT_TRY(graph::Shapes shapes, infer_shapes(graph, options));
  check_options(options, shapes);
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
  tensors_.resize(graph_.tensor_count());
  const std::vector<char> wants_gradient = graph::wants_gradient(graph_, shapes_);
  depends_on_training_ = graph::depends_on_training(graph_, shapes_);
  for (const NodeId id : order_) {
    Tensor& y = of_node(id);
    y.extent = extent_of(options_.batch_size, shapes_.output[id]);
    y.value = Buffer<T>(y.extent.count());
    if (wants_gradient[id] && training()) y.gradient = Buffer<T>(y.extent.count());
    if (!std::holds_alternative<graph::BatchNorm>(graph_.node(id).op)) continue;
    nodes_[id].mean = Buffer<T>(static_cast<size_t>(y.extent.c));
    nodes_[id].inv_std = Buffer<T>(static_cast<size_t>(y.extent.c));
  }
  allocate_parameters();
  const auto images = static_cast<size_t>(options_.batch_size);
  for (const InputForm& input : options_.inputs) {
    inputs_.emplace_back(images * static_cast<size_t>(element_count(input.shape)));
  }
  for (size_t i = 0; i < shapes_.labels.size(); i++) labels_.emplace_back(images);
  for (const graph::HeadInfo& head : shapes_.heads) results_.emplace_back(output(head.node).size());
  if (shapes_.draws && training()) keys_ = Buffer<uint64_t>(images);
}

template <class T>
void ReferenceExecutor<T>::allocate_parameters() {
  terms_.resize(shapes_.parameters.size());
  for (size_t i = 0; i < shapes_.parameters.size(); i++) {
    const graph::ParameterInfo& info = shapes_.parameters[i];
    const auto count = static_cast<size_t>(element_count(info.shape));
    const graph::TensorUse& first = info.uses.front();
    tensors_[graph_.node(first.node).inputs[first.argument].index].value = Buffer<T>(count);
    NodeState& state = nodes_[first.node];
    if (state.end_parameter == 0) state.first_parameter = i;
    state.end_parameter = i + 1;
    for (size_t use = 0; training() && use < info.uses.size(); use++) terms_[i].emplace_back(count);
  }
}

template <class T>
Result<> ReferenceExecutor<T>::begin_forward(const Batch& batch) {
  DT_TRY_VOID(check_batch(batch, options_, shapes_));
  for (size_t i = 0; i < labels_.size() && !batch.labels.empty(); i++) {
    copy_labels(batch.labels, i, labels_.size(), labels_[i].span());
  }
  std::ranges::copy(batch.keys.first(keys_.size()), keys_.data());
  for (size_t i = 0; i < inputs_.size(); i++) {
    copy_floats(batch.inputs[i], options_.inputs[i], inputs_[i].span());
  }
  for (const NodeId id : order_) {
    if (!std::holds_alternative<graph::Input>(graph_.node(id).op)) continue;
    std::ranges::copy(inputs_[graph::input_of(graph_, shapes_, id)].span(), output(id).begin());
  }
  return {};
}

template <class T>
Result<> ReferenceExecutor<T>::forward(const Batch& batch, const WeightsWait& wait) {
  DT_TRY_VOID(begin_forward(batch));
  size_t buckets_loaded = 0;
  for (const NodeId id : order_) {
    // Waits only for parameters that this node is the first to read; the others were loaded for earlier nodes.
    const size_t needed = nodes_[id].end_parameter;
    while (buckets_loaded < options_.bucket_begin.size() && options_.bucket_begin[buckets_loaded] < needed) {
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
    if (nodes_[*id].end_parameter == 0) continue;
    // All gradients from this node's first parameter on are complete now.
    while (buckets_left > 0 && options_.bucket_begin[buckets_left - 1] >= nodes_[*id].first_parameter) {
      DT_TRY_VOID(ready(--buckets_left), "after node '{}'", graph_.node(*id).name);
    }
  }
  return {};
}

template <class T>
void ReferenceExecutor<T>::begin_backward() {
  DT_CHECK(training(), "an inference executor has no backward pass");
  for (Tensor& tensor : tensors_) std::ranges::fill(tensor.gradient.span(), T{0});
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

// Copies even if T is float, because the caller may change the weights once backward() has reported their gradients
// ready.
template <class T>
void ReferenceExecutor<T>::load_parameter(size_t index) {
  const graph::TensorUse& use = shapes_.parameters[index].uses.front();
  std::ranges::copy(view_.parameters[index].weight,
                    tensors_[graph_.node(use.node).inputs[use.argument].index].value.data());
}

template <class T>
std::optional<size_t> ReferenceExecutor<T>::parameter_index(NodeId node, size_t argument) const {
  const std::vector<graph::TensorId>& inputs = graph_.node(node).inputs;
  const auto variable = argument < inputs.size() ? graph_.variable(inputs[argument]) : std::nullopt;
  if (!variable || graph_.variables()[*variable].role != graph::Variable::Role::kLearned) return std::nullopt;
  return shapes_.position[*variable];
}

template <class T>
In<T> ReferenceExecutor<T>::parameter(NodeId node, size_t argument) const {
  if (!parameter_index(node, argument)) return {};
  return tensors_[graph_.node(node).inputs[argument].index].value.span();
}

template <class T>
Out<T> ReferenceExecutor<T>::gradient_term(NodeId node, size_t argument) {
  const std::optional<size_t> parameter = parameter_index(node, argument);
  if (!parameter) return {};
  const std::vector<graph::TensorUse>& uses = shapes_.parameters[*parameter].uses;
  const auto use = std::ranges::find(uses, graph::TensorUse{node, argument}) - uses.begin();
  return terms_[*parameter][static_cast<size_t>(use)].span();
}

// Sums the terms of the gradients that are complete. The backward pass begins with the last use, so it adds the terms
// from the last to the first.
template <class T>
void ReferenceExecutor<T>::finish_gradients(const NodeState& state) {
  for (size_t i = state.first_parameter; i < state.end_parameter; i++) {
    const std::span<T> sum = terms_[i].back().span();
    for (size_t use = terms_[i].size() - 1; use-- > 0;) add_to<T>(terms_[i][use].span(), sum);
    std::ranges::transform(sum, view_.parameters[i].gradient.begin(), [](T x) { return static_cast<float>(x); });
  }
}

template <class T>
std::span<float> ReferenceExecutor<T>::statistic(NodeId node, size_t argument) {
  return view_.statistics[shapes_.position[graph_.variable(graph_.node(node).inputs[argument]).value()]].weight;
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
  for (const Tensor& tensor : tensors_) numbers += tensor.value.size() + tensor.gradient.size();
  for (const NodeState& state : nodes_) numbers += state.mean.size() + state.inv_std.size();
  for (const std::vector<Buffer<T>>& terms : terms_) {
    for (const Buffer<T>& term : terms) numbers += term.size();
  }
  size_t floats = 0;
  for (const auto* buffers : {&inputs_, &labels_, &results_}) {
    for (const Buffer<float>& buffer : *buffers) floats += buffer.size();
  }
  return numbers * sizeof(T) + floats * sizeof(float);
}

// forward_node and backward_node are instantiated in operators.cc.
template class ReferenceExecutor<float>;
template class ReferenceExecutor<double>;

}  // namespace dtrain::exec::reference
