// The types in which the reference's operators are written. All operators are plain loops over row-major [n, c, h, w]
// tensors, templates on the type of the arithmetic (float or double, instantiated in the .cc files).
//
// Backward functions add to `dx`, because a tensor that several nodes read gets a gradient from each of them. They skip
// results whose span is empty. Gradients of parameters are set, not added to.
#pragma once

#include <cstdint>
#include <span>

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

}  // namespace dtrain::exec::reference
