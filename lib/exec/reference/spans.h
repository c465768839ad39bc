// The words in which the reference's operators are written. All are plain loops, templated on the type that they
// compute in (float or double, instantiated in the .cc files), over tensors in row-major [n, c, h, w].
//
// Backward functions add to `dx`, because a tensor that several nodes read collects its gradient from all of them, and
// leave out what has an empty span. Gradients of parameters are set, not added to.
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
