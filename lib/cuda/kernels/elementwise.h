// Sums of tensors, activations, and changes of type: every number on its own. kernels/tensor.h says what holds for all.
#pragma once

#include <span>

#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

constexpr int kSourcesMax = 8;

// y = factor * (source 0 + source 1 + ... in their order), then max(that, 0) if relu. With one source a copy, which
// with pitches is a part of Concat or of its backward; with y among the sources, the accumulation of a gradient.
//   sources, y [rows, channels]    1 to kSourcesMax sources
// Bytes: (sources + 1) * rows * channels * bytes_of(type).
struct Sum {
  Type type = Type::kFloat32;
  int64_t rows = 0, channels = 0;
  std::span<const In> sources = {};  // on the host
  Out y = {};
  bool relu = false;
  float factor = 1;
};
void sum(const Sum& sum, cudaStream_t stream);

// graph::Activation::Kind, which this folder does not include.
enum class Curve { kRelu, kTanh, kSigmoid, kSoftrelu };

// y = curve(x).   x, y [rows, channels]   Bytes: 2 * rows * channels * bytes_of(type).
// Source: models.md section 2; softrelu as max(x, 0) + log1p(exp(-|x|)), which does not overflow.
struct Activate {
  Type type = Type::kFloat32;
  int64_t rows = 0, channels = 0;
  Curve curve = Curve::kRelu;
  In x = {};
  Out y = {};
};
void activate(const Activate& activate, cudaStream_t stream);

// dx = add + dy * slope, the slope by the output y: relu [y > 0], tanh 1 - y^2, sigmoid y (1 - y), softrelu 1 - e^-y.
//   y, dy, dx, add [rows, channels]; add may be absent, and be dx
// Bytes: (3 or, with add, 4) * rows * channels * bytes_of(type).
struct ActivateBackward {
  Type type = Type::kFloat32;
  int64_t rows = 0, channels = 0;
  Curve curve = Curve::kRelu;
  In y = {}, dy = {}, add = {};
  Out dx = {};
};
void activate_backward(const ActivateBackward& backward, cudaStream_t stream);

// to = from in another type, `count` elements one after the other; one of the types is float32.
// Bytes: count * (bytes_of(from_type) + bytes_of(to_type)).
struct Convert {
  Type from_type = Type::kFloat32, to_type = Type::kFloat32;
  int64_t count = 0;
  const void* from = nullptr;
  void* to = nullptr;
};
void convert(const Convert& convert, cudaStream_t stream);

}  // namespace dtrain::cuda
