// A tensor of a program in the form of the kernels (kernels/tensor.h): a batch of NHWC maps, or of vectors with h = w =
// 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/type.h"

namespace dtrain::cuda {

using ValueId = size_t;
constexpr ValueId kNoValue = static_cast<ValueId>(-1);

// n*h*w rows of `channels` values, `pitch` apart. The pitch is larger than the channels for a slice of a Concat, and
// for maps with `zeros` padding channels after the real ones, filled with 0 (images of 3 channels, for convolutions
// that read 4 or 8).
//
// A Flatten keeps the storage order, so the output of a node of shape [c*h*w] can be stored as maps of h x w.
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

// The value whose memory the result of an elementwise step from `from` to `to` may reuse; kNoValue if an element would
// change its address.
inline ValueId in_place(const Map& from, const Map& to) {
  return from.packed() && to.packed() && from.type == to.type ? from.value : kNoValue;
}

}  // namespace dtrain::cuda
