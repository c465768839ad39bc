// The memory for the gradients of one slice's rounds. A round takes a buffer when a gradient arrives and gives it back
// when it is over, so a slice needs as many buffers as rounds are open at the same time, not one for each group. In ASP
// and SSP, where each worker is a group whose round ends with its only gradient, that is one buffer.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "tensor/buffer.h"

namespace dtrain::kvstore {

// Not thread-safe.
class GradientBuffers {
 public:
  explicit GradientBuffers(size_t elements) : elements_(elements) {}

  [[nodiscard]] size_t elements() const { return elements_; }
  // Returns a buffer of elements() floats with any values.
  Buffer<float> take() {
    if (spare_.empty()) {
      count_++;
      return Buffer<float>(elements_);
    }
    Buffer<float> buffer = std::move(spare_.back());
    spare_.pop_back();
    return buffer;
  }
  void give_back(Buffer<float> buffer) { spare_.push_back(std::move(buffer)); }
  // Frees all buffers that are not in use. Those in use must not be given back.
  void clear() {
    spare_.clear();
    count_ = 0;
  }
  // The number of buffers that were made since the last clear().
  [[nodiscard]] size_t count() const { return count_; }

 private:
  size_t elements_;
  size_t count_ = 0;
  std::vector<Buffer<float>> spare_;
};

}  // namespace dtrain::kvstore
