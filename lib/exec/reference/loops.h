// The reference's operators: plain loops over row-major [n, c, h, w] tensors, as templates on the type of the
// arithmetic (float or double, instantiated in loops.cc). They are slow but obviously correct, and all other backends
// are compared with them.
//
// Backward functions add to `dx`, because a tensor that several nodes read gets a gradient from each of them. They skip
// outputs whose span is empty. Gradients of parameters are set, not added to.
#pragma once

#include <cstdint>
#include <span>

#include "exec/dropout.h"
#include "graph/graph.h"

namespace dtrain::exec::reference {

template <class T>
using In = std::span<const T>;
template <class T>
using Out = std::span<T>;

// The extent of a batch of maps. A batch of vectors has h = w = 1.
struct Extent {
  int64_t n = 1, c = 1, h = 1, w = 1;

  [[nodiscard]] size_t at(int64_t in, int64_t ic, int64_t ih, int64_t iw) const {
    return static_cast<size_t>(((in * c + ic) * h + ih) * w + iw);
  }
  [[nodiscard]] size_t count() const { return static_cast<size_t>(n * c * h * w); }
};

// For shapes and the formula see graph::Convolution. b is empty if the operator has no bias.
template <class T>
void convolution_forward(const graph::Convolution& op, const Extent& xe, In<T> x, In<T> w, In<T> b, const Extent& ye,
                         Out<T> y);
template <class T>
void convolution_backward_data(const graph::Convolution& op, const Extent& xe, In<T> w, const Extent& ye, In<T> dy,
                               Out<T> dx);
template <class T>
void convolution_backward_weights(const graph::Convolution& op, const Extent& xe, In<T> x, const Extent& ye, In<T> dy,
                                  Out<T> dw, Out<T> db);

// y = x W' + b for n rows, with x [n, inputs], w [outputs, inputs], b [outputs] or empty, y [n, outputs].
template <class T>
void fully_connected_forward(int64_t n, In<T> x, In<T> w, In<T> b, Out<T> y);
template <class T>
void fully_connected_backward(int64_t n, In<T> x, In<T> w, In<T> dy, Out<T> dx, Out<T> dw, Out<T> db);

// Values that the training forward pass stores for the backward pass; each has shape [c].
template <class T>
struct BatchStatistics {
  Out<T> mean;
  Out<T> inv_std;  // 1 / sqrt(variance + epsilon)
};

// Computes the mean, biased variance and output of a batch. Updates the moving statistics, which are float32 for any T.
template <class T>
void batch_norm_training(const graph::BatchNorm& op, const Extent& e, In<T> x, In<T> gamma, In<T> beta,
                         BatchStatistics<T> batch, Out<float> moving_mean, Out<float> moving_var, Out<T> y);
// Computes the training forward pass of a batch normalization with graph::BatchNorm::global_statistics.
template <class T>
void batch_norm_training_globally(const graph::BatchNorm& op, const Extent& e, In<T> x, In<T> gamma, In<T> beta,
                                  BatchStatistics<T> batch, In<float> moving_mean, In<float> moving_var, Out<T> y);
template <class T>
void batch_norm_inference(const graph::BatchNorm& op, const Extent& e, In<T> x, In<T> gamma, In<T> beta,
                          In<float> moving_mean, In<float> moving_var, Out<T> y);
template <class T>
void batch_norm_backward(const graph::BatchNorm& op, const Extent& e, In<T> x, In<T> gamma, BatchStatistics<T> batch,
                         In<T> dy, Out<T> dx, Out<T> dgamma, Out<T> dbeta);

template <class T>
void activation_forward(graph::Activation op, In<T> x, Out<T> y);
// The gradient of an activation, computed from its output y instead of its input; see graph::Activation.
template <class T>
void activation_backward(graph::Activation op, In<T> y, In<T> dy, Out<T> dx);

// For windows, divisors and ties see graph::Pooling.
template <class T>
void pooling_forward(const graph::Pooling& op, const Extent& xe, In<T> x, const Extent& ye, Out<T> y);
template <class T>
void pooling_backward(const graph::Pooling& op, const Extent& xe, In<T> x, const Extent& ye, In<T> dy, Out<T> dx);

// Compute the forward and the backward pass of graph::LocalResponseNorm, whose comment has the formulas.
template <class T>
void local_response_norm_forward(const graph::LocalResponseNorm& op, const Extent& e, In<T> x, Out<T> y);
template <class T>
void local_response_norm_backward(const graph::LocalResponseNorm& op, const Extent& e, In<T> x, In<T> dy, Out<T> dx);

// Operators that move, add or scale values: Concat, Add, Flatten, Identity, Scale.

// Computes y += factor x. This is one step of Add and of its backward pass. If y was zero, it is also Scale, and the
// copy of Flatten and Identity. Does nothing if y is empty.
template <class T>
void add_to(In<T> x, Out<T> y, T factor = 1);

// One part of a Concat: copies the n rows of x into the rows of y, beginning at element `offset` of each row. `offset`
// counts elements of one image, channels * h * w.
template <class T>
void concat_forward(int64_t n, In<T> x, int64_t offset, Out<T> y);
template <class T>
void concat_backward(int64_t n, In<T> dy, int64_t offset, Out<T> dx);

// Computes y += x, multiplied by the rule's factor, for the elements of an image that are not dropped. If y was zero,
// this is the forward pass; with dy and dx in place of x and y, it is the backward pass. Does nothing if y is empty.
// `keys`: one for each of the n images.
template <class T>
void add_kept(const DropRule& rule, std::span<const uint64_t> keys, In<T> x, Out<T> y);

// Sets p to softmax(x) in each of n rows; each row's maximum is subtracted first.
template <class T>
void softmax_forward(int64_t n, In<T> x, Out<T> p);
// Computes the gradient of the loss. labels [n]: integers below the number of classes.
template <class T>
void softmax_backward(const graph::SoftmaxOutput& op, In<T> p, In<float> labels, Out<T> dx);

}  // namespace dtrain::exec::reference
