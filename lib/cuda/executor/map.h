// A tensor of a program as the kernels see it (kernels/tensor.h): a batch of maps, NHWC, or of vectors, with h = w = 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/type.h"

namespace dtrain::cuda {

using ValueId = size_t;
constexpr ValueId kNoValue = static_cast<ValueId>(-1);

// n*h*w rows of `channels` numbers, `pitch` apart. More than the channels: a slice of a concatenation, or maps with
// `zeros` channels behind their own, which hold 0 (images of 3 channels, for convolutions that want 4).
//
// A Flatten leaves its maps as they lie, so that a node of the shape [c*h*w] can have maps of h x w.
struct Map {
  ValueId value = kNoValue;
  Type type = Type::kFloat32;
  int64_t n = 1, h = 1, w = 1, channels = 1, pitch = 1, zeros = 0;

  [[nodiscard]] bool exists() const { return value != kNoValue; }
  [[nodiscard]] int64_t positions() const { return h * w; }
  [[nodiscard]] int64_t rows() const { return n * h * w; }
  [[nodiscard]] bool packed() const { return pitch == channels; }
  [[nodiscard]] bool same_form(const Map& other) const {
    return h == other.h && w == other.w && channels == other.channels;
  }
};

// What an elementwise step that reads `from` and writes `to` may take over: each number has to keep its address.
inline ValueId in_place(const Map& from, const Map& to) {
  return from.packed() && to.packed() && from.type == to.type ? from.value : kNoValue;
}

}  // namespace dtrain::cuda
