// Sums of tensors, activations and type conversions: elementwise kernels. kernels/tensor.h has the conventions of all
// kernels.
#pragma once

#include <span>

#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

constexpr int kSourcesMax = 8;

// y = factor * (source 0 + source 1 + ..., in this order), then max(y, 0) if relu. With one source it is a copy; with
// pitches, such a copy is part of Concat or its backward pass. With y among the sources it accumulates a gradient.
//   sources, y [rows, channels]    1 to kSourcesMax sources
// Bytes: (sources + 1) * rows * channels * bytes_of(type).
struct Sum {
  Type type = Type::kFloat32;
  int64_t rows = 0, channels = 0;
  std::span<const In> sources = {};  // in host memory
  Out y = {};
  bool relu = false;
  float factor = 1;
};
void sum(const Sum& sum, cudaStream_t stream);

// Mirrors graph::Activation::Kind, which this directory does not include.
enum class Curve { kRelu, kTanh, kSigmoid, kSoftrelu, kSoftsign };

// y = curve(x).   x, y [rows, channels]   Bytes: 2 * rows * channels * bytes_of(type).
// softrelu is computed as max(x, 0) + log1p(exp(-|x|)), which does not overflow. See docs/arithmetic.md, "Operators".
struct Activate {
  Type type = Type::kFloat32;
  int64_t rows = 0, channels = 0;
  Curve curve = Curve::kRelu;
  In x = {};
  Out y = {};
};
void activate(const Activate& activate, cudaStream_t stream);

// dx = add + dy * slope. The slope as a function of y: relu [y > 0], tanh 1 - y^2, sigmoid y (1 - y), softrelu 1 -
// e^-y, softsign (1 - |y|)^2.
//   y, dy, dx, add [rows, channels]; add may be null, and may be dx
// dbias, if not null: [channels], the sum of dx, as it is stored, over its rows. It is the gradient of the bias of the
// layer before the activation, with the bits that bias_gradient (kernels/bias.h) would compute from dx, if all rows can
// be moved 16 bytes at a time. Only with dbias, `workspace` and `counters` as for a BiasGradient are needed.
// Bytes: (3 or, with add, 4) * rows * channels * bytes_of(type); with dbias also the partial results, and 4 * channels.
struct ActivateBackward {
  Type type = Type::kFloat32;
  int64_t rows = 0, channels = 0;
  Curve curve = Curve::kRelu;
  In y = {}, dy = {}, add = {};
  Out dx = {};
  float* dbias = nullptr;
  void* workspace = nullptr;
  uint32_t* counters = nullptr;
};
void activate_backward(const ActivateBackward& backward, cudaStream_t stream);

// to = from in another type, for `count` contiguous elements; one of the types must be float32.
// Bytes: count * (bytes_of(from_type) + bytes_of(to_type)).
struct Convert {
  Type from_type = Type::kFloat32, to_type = Type::kFloat32;
  int64_t count = 0;
  const void* from = nullptr;
  void* to = nullptr;
};
void convert(const Convert& convert, cudaStream_t stream);

}  // namespace dtrain::cuda
