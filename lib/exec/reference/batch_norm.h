#pragma once

#include "exec/reference/spans.h"
#include "graph/graph.h"

namespace dtrain::exec::reference {

// What the training forward pass leaves for the backward pass, [c] each.
template <class T>
struct BatchStatistics {
  Out<T> mean;
  Out<T> inv_std;  // 1 / sqrt(variance + epsilon)
};

// Mean, biased variance and output of a batch. Updates the moving statistics, which are float32 for any T.
template <class T>
void batch_norm_training(const graph::BatchNorm& op, const Extent& e, In<T> x, In<T> gamma, In<T> beta,
                         BatchStatistics<T> batch, Out<float> moving_mean, Out<float> moving_var, Out<T> y);
// For graph::BatchNorm::global_statistics.
template <class T>
void batch_norm_training_globally(const graph::BatchNorm& op, const Extent& e, In<T> x, In<T> gamma, In<T> beta,
                                  BatchStatistics<T> batch, In<float> moving_mean, In<float> moving_var, Out<T> y);
template <class T>
void batch_norm_inference(const graph::BatchNorm& op, const Extent& e, In<T> x, In<T> gamma, In<T> beta,
                          In<float> moving_mean, In<float> moving_var, Out<T> y);
template <class T>
void batch_norm_backward(const graph::BatchNorm& op, const Extent& e, In<T> x, In<T> gamma, BatchStatistics<T> batch,
                         In<T> dy, Out<T> dx, Out<T> dgamma, Out<T> dbeta);

}  // namespace dtrain::exec::reference
