// Chooses the loop for each operator and passes it the tensors.
#include <algorithm>

#include "base/overloaded.h"
#include "exec/reference/executor.h"
#include "exec/reference/loops.h"
#include "exec/sampling.h"

namespace dtrain::exec::reference {

using graph::NodeId;

namespace {

// Part i of n equal parts; with n images, the part of image i. The parts of an empty span are empty and have a null
// address.
template <class Span>
Span part_of(Span all, size_t i, size_t n) {
  return all.empty() ? Span() : all.subspan(i * (all.size() / n), all.size() / n);
}

}  // namespace

template <class T>
void ReferenceExecutor<T>::forward_node(NodeId node) {
  const Extent& e = extent(node);
  const Out<T> y = output(node);
  const int64_t n = options_.batch_size;
  std::visit(
      Overloaded{
          [&](const graph::Input&) {},  // begin_forward has already stored the values of inputs
          [&](const graph::Convolution& op) {
            convolution_forward<T>(op, input_extent(node), input(node), parameter(node, op.kWeight),
                                   parameter(node, op.kBias), e, y);
          },
          [&](const graph::FullyConnected& op) {
            fully_connected_forward<T>(n, input(node), parameter(node, op.kWeight), parameter(node, op.kBias), y);
          },
          [&](const graph::BatchNorm& op) { batch_norm(node, op); },
          [&](const graph::Activation& op) { activation_forward<T>(op, input(node), y); },
          [&](const graph::Pooling& op) { pooling_forward<T>(op, input_extent(node), input(node), e, y); },
          [&](const graph::Concat&) { concat(node); }, [&](const graph::Add&) { sum(node); },
          [&](const graph::Flatten&) { sum(node); }, [&](const graph::Identity&) { sum(node); },
          [&](const graph::Scale& op) { sum(node, op.factor); }, [&](const graph::Dropout& op) { dropout(node, op); },
          [&](const graph::LocalResponseNorm& op) { local_response_norm_forward<T>(op, e, input(node), y); },
          [&](const graph::SpatialTransformer&) { sample(node); },
          [&](const graph::SoftmaxOutput&) { softmax_forward<T>(n, input(node), y); }},
      graph_.node(node).op);
  for (size_t head = 0; head < results_.size(); head++) {
    if (shapes_.heads[head].node == node) std::ranges::copy(y, results_[head].data());
  }
}

template <class T>
void ReferenceExecutor<T>::backward_node(NodeId node) {
  const graph::Node& n = graph_.node(node);
  if (graph::is_loss(n.op) || !gradient(node).empty()) {
    compute_backward(node);
  } else {  // no loss depends on the node, so its parameters get zero gradients
    for (size_t i = n.data_inputs.size(); i < n.inputs.size(); i++) std::ranges::fill(gradient_term(node, i), T{0});
  }
  finish_gradients(nodes_[node]);
}

template <class T>
void ReferenceExecutor<T>::compute_backward(NodeId node) {
  const Extent& e = extent(node);
  const In<T> dy = gradient(node);
  const int64_t n = options_.batch_size;
  std::visit(
      Overloaded{
          [&](const graph::Input&) {},
          [&](const graph::Convolution& op) {
            const Extent& xe = input_extent(node);
            convolution_backward_data<T>(op, xe, parameter(node, op.kWeight), e, dy, input_gradient(node));
            convolution_backward_weights<T>(op, xe, input(node), e, dy, gradient_term(node, op.kWeight),
                                            gradient_term(node, op.kBias));
          },
          [&](const graph::FullyConnected& op) {
            fully_connected_backward<T>(n, input(node), parameter(node, op.kWeight), dy, input_gradient(node),
                                        gradient_term(node, op.kWeight), gradient_term(node, op.kBias));
          },
          [&](const graph::BatchNorm& op) {
            batch_norm_backward<T>(op, e, input(node), parameter(node, op.kGamma), statistics(node), dy,
                                   input_gradient(node), gradient_term(node, op.kGamma), gradient_term(node, op.kBeta));
          },
          [&](const graph::Activation& op) { activation_backward<T>(op, output(node), dy, input_gradient(node)); },
          [&](const graph::Pooling& op) {
            pooling_backward<T>(op, input_extent(node), input(node), e, dy, input_gradient(node));
          },
          [&](const graph::Concat&) { concat_gradient(node); }, [&](const graph::Add&) { sum_gradient(node); },
          [&](const graph::Flatten&) { sum_gradient(node); }, [&](const graph::Identity&) { sum_gradient(node); },
          [&](const graph::Scale& op) { sum_gradient(node, op.factor); },
          [&](const graph::Dropout& op) {
            add_kept<T>(drop_rule(graph_.node(node), op), keys_.span(), dy, input_gradient(node));
          },
          [&](const graph::LocalResponseNorm& op) {
            local_response_norm_backward<T>(op, e, input(node), dy, input_gradient(node));
          },
          [&](const graph::SpatialTransformer&) { sample_gradient(node); },
          // The gradient with respect to this node's output is not used, because the gradient of the loss starts here.
          [&](const graph::SoftmaxOutput& op) {
            softmax_backward<T>(op, output(node), labels_[graph::label_of(graph_, shapes_, node)].span(),
                                input_gradient(node));
          }},
      graph_.node(node).op);
}

template <class T>
void ReferenceExecutor<T>::batch_norm(NodeId node, const graph::BatchNorm& op) {
  const Extent& e = extent(node);
  const In<T> gamma = parameter(node, op.kGamma), beta = parameter(node, op.kBeta);
  const std::span<float> mean = statistic(node, op.kMean), var = statistic(node, op.kVariance);
  const bool in_training = training() && depends_on_training_[node] != 0;
  if (in_training && op.global_statistics) {
    batch_norm_training_globally<T>(op, e, input(node), gamma, beta, statistics(node), mean, var, output(node));
  } else if (in_training) {
    batch_norm_training<T>(op, e, input(node), gamma, beta, statistics(node), mean, var, output(node));
  } else {
    batch_norm_inference<T>(op, e, input(node), gamma, beta, mean, var, output(node));
  }
}

template <class T>
void ReferenceExecutor<T>::dropout(NodeId node, const graph::Dropout& op) {
  if (!training()) return sum(node);
  std::ranges::fill(output(node), T{0});
  add_kept<T>(drop_rule(graph_.node(node), op), keys_.span(), input(node), output(node));
}

template <class T>
Sampling ReferenceExecutor<T>::sampling(NodeId node) const {
  const Extent &x = input_extent(node), &y = extent(node);
  return {.channels = x.c, .height = x.h, .width = x.w, .output_height = y.h, .output_width = y.w};
}

template <class T>
void ReferenceExecutor<T>::sample(NodeId node) {
  const Sampling s = sampling(node);
  const auto n = static_cast<size_t>(options_.batch_size);
  for (size_t i = 0; i < n; i++) {
    const In<T> x = part_of(input(node), i, n), t = part_of(input(node, 1), i, n);
    sample_map<T>(s, x.data(), t.data(), part_of(output(node), i, n).data());
  }
}

template <class T>
void ReferenceExecutor<T>::sample_gradient(NodeId node) {
  const Sampling s = sampling(node);
  const auto n = static_cast<size_t>(options_.batch_size);
  const Out<T> dx = input_gradient(node), dt = input_gradient(node, 1);
  for (size_t i = 0; i < n; i++) {
    const In<T> x = part_of(input(node), i, n), t = part_of(input(node, 1), i, n);
    sample_map_backward<T>(s, x.data(), t.data(), part_of(gradient(node), i, n).data(), part_of(dx, i, n).data(),
                           part_of(dt, i, n).data());
  }
}

template <class T>
void ReferenceExecutor<T>::concat(NodeId node) {
  int64_t offset = 0;
  for (const NodeId x : graph_.node(node).data_inputs) {
    concat_forward<T>(options_.batch_size, output(x), offset, output(node));
    offset += element_count(shapes_.output[x]);
  }
}

template <class T>
void ReferenceExecutor<T>::concat_gradient(NodeId node) {
  int64_t offset = 0;
  for (const NodeId x : graph_.node(node).data_inputs) {
    concat_backward<T>(options_.batch_size, gradient(node), offset, gradient(x));
    offset += element_count(shapes_.output[x]);
  }
}

template <class T>
void ReferenceExecutor<T>::sum(NodeId node, double factor) {
  std::fill(output(node).begin(), output(node).end(), T{0});
  for (const NodeId x : graph_.node(node).data_inputs) add_to<T>(output(x), output(node), static_cast<float>(factor));
}

template <class T>
void ReferenceExecutor<T>::sum_gradient(NodeId node, double factor) {
  for (const NodeId x : graph_.node(node).data_inputs)
    add_to<T>(gradient(node), gradient(x), static_cast<float>(factor));
}

// Instantiates the functions that this file defines; executor.cc instantiates the rest of the class.
#define DT_INSTANTIATE(T)                                                          \
  template void ReferenceExecutor<T>::forward_node(NodeId);                        \
  template void ReferenceExecutor<T>::backward_node(NodeId);                       \
  template void ReferenceExecutor<T>::compute_backward(NodeId);                    \
  template void ReferenceExecutor<T>::batch_norm(NodeId, const graph::BatchNorm&); \
  template void ReferenceExecutor<T>::dropout(NodeId, const graph::Dropout&);      \
  template Sampling ReferenceExecutor<T>::sampling(NodeId) const;                  \
  template void ReferenceExecutor<T>::sample(NodeId);                              \
  template void ReferenceExecutor<T>::sample_gradient(NodeId);                     \
  template void ReferenceExecutor<T>::concat(NodeId);                              \
  template void ReferenceExecutor<T>::concat_gradient(NodeId);                     \
  template void ReferenceExecutor<T>::sum(NodeId, double);                         \
  template void ReferenceExecutor<T>::sum_gradient(NodeId, double);
DT_INSTANTIATE(float)
DT_INSTANTIATE(double)
#undef DT_INSTANTIATE

}  // namespace dtrain::exec::reference
