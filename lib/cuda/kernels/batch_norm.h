// Batch normalization over NHWC maps, forward and backward, fused with the addition of a shortcut and the ReLU after
// it. kernels/tensor.h has the conventions of all kernels; graph::BatchNorm has the formulas (docs/arithmetic.md,
// "Operators"). Statistics are per channel, with m = rows; the variance is the biased one.
//
// gamma may be null, for a fixed gamma: it then counts as 1, and its gradient is written as 0.
#pragma once

#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

// The size of the `workspace` and the number of `counters` that the operations here need; see kernels/tensor.h.
int64_t batch_norm_workspace_bytes(Type type, int64_t rows, int64_t channels);
int64_t batch_norm_counters(int64_t channels);

// Computes mean and inv_std = 1 / sqrt(variance + epsilon) of a batch. The moving statistics become momentum * old + (1
// - momentum) * the batch's statistics. All are [channels]. One launch, one pass over x.
// Sums of squares are not used, because their difference loses precision if |mean| is far larger than the deviation.
// Instead every thread computes the mean and the squared deviations of 4 rows in registers and merges them by Chan's
// formula. The threads of a block are merged by the same formula. The blocks' results are summed as differences from
// the first of these results. Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing
// sample variances", 1979. Bytes: rows * channels * bytes_of(type), the blocks' results, and 24 * channels.
struct BatchNormStatistics {
  Type type = Type::kFloat32;
  int64_t rows = 0, channels = 0;
  In x = {};
  double epsilon = 1e-3, momentum = 0.9;
  float* mean = nullptr;
  float* inv_std = nullptr;
  float* moving_mean = nullptr;
  float* moving_var = nullptr;
  void* workspace = nullptr;
  uint32_t* counters = nullptr;
};
void batch_norm_statistics(const BatchNormStatistics& statistics, cudaStream_t stream);

// inv_std = 1 / sqrt(variance + epsilon) of given statistics, [channels].   Bytes: 8 * channels.
struct BatchNormInverse {
  int64_t channels = 0;
  const float* variance = nullptr;
  double epsilon = 1e-3;
  float* inv_std = nullptr;
};
void batch_norm_inverse(const BatchNormInverse& inverse, cudaStream_t stream);

// y = gamma (x - mean) inv_std + beta, plus skip if it is given, then max(y, 0) if relu. In inference, pass `variance`
// (the moving one) and epsilon instead of inv_std.
//   x, skip, y [rows, channels]    mean, inv_std, variance, gamma, beta [channels]    y may be x or skip
// zeros: after the channels of a row, y has this number of channels that are set to 0. Only if rows are not moved 16
// bytes at a time, as those of an image.
// passed, if not null: for every 16 bytes of y one byte, whose bits are set where y > 0, from the lowest bit on. Only
// if rows of x, skip and y can be moved 16 bytes at a time. Bytes: rows * ((2 or, with skip, 3) * channels + zeros) *
// bytes_of(type), and those of `passed`.
struct BatchNormApply {
  Type type = Type::kFloat32;
  int64_t rows = 0, channels = 0;
  In x = {}, skip = {};
  const float* mean = nullptr;
  const float* inv_std = nullptr;
  const float* variance = nullptr;
  double epsilon = 1e-3;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  bool relu = false;
  Out y = {};
  int64_t zeros = 0;
  uint8_t* passed = nullptr;
};
// Number of bytes of `passed` in BatchNormApply and BatchNormBackward.
inline int64_t passed_bytes(Type type, int64_t rows, int64_t channels) {
  return rows * channels * bytes_of(type) / 16;
}
void batch_norm_apply(const BatchNormApply& apply, cudaStream_t stream);

// With dz = dy, or dy [y > 0] if relu:
//   dbeta = sum dz    dgamma = sum dz xhat    dskip = dz
//   dx = add + gamma inv_std (dz - dbeta/m - xhat sum(dz xhat)/m)
//   dx = add + gamma inv_std dz if mean and inv_std are given ones, not the batch's (global)
//   x, y, dy, add, dx, dskip [rows, channels]    mean, inv_std, gamma, beta, dgamma, dbeta [channels]
// y, or the bits that batch_norm_apply wrote to `passed`, are required if a skip was added before the ReLU. Otherwise
// leave both null: [y > 0] is then recomputed from x, bit for bit as batch_norm_apply computed it. dskip is the
// gradient of the skip. It may be given only with relu (without relu it equals dy). It is written in the first pass
// over memory; the second pass reads it instead of dy and y. dx may be null if it is not needed, and may be add or dy.
// dskip may be dy. add may be null. Two launches, or one without dx. Bytes, in units of rows * channels *
// bytes_of(type): for the sums 2, + 1 with y or + 1/16 with `passed`, + 1 with dskip; for dx 3, + 1 with y or + 1/16
// with `passed` unless dskip is given, + 1 with add. Also the blocks' partial results, and 20 * channels.
struct BatchNormBackward {
  Type type = Type::kFloat32;
  int64_t rows = 0, channels = 0;
  In x = {}, y = {}, dy = {};
  const uint8_t* passed = nullptr;
  bool relu = false, global = false;
  const float* mean = nullptr;
  const float* inv_std = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float* dgamma = nullptr;
  float* dbeta = nullptr;
  Out dskip = {};
  In add = {};
  Out dx = {};
  void* workspace = nullptr;
  uint32_t* counters = nullptr;
};
void batch_norm_backward(const BatchNormBackward& backward, cudaStream_t stream);

}  // namespace dtrain::cuda
