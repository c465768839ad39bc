// The memory of a program's values: zero at first, and in huge pages where the kernel offers them. Tensors are read in
// strides of whole images, for which the processor's table of 4 KiB pages is too small.
#pragma once

#include <cstddef>

namespace dtrain::exec::cpu {

class Arena {
 public:
  Arena() = default;
  explicit Arena(size_t bytes);  // std::bad_alloc if there is no such memory
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace dtrain::exec::cpu
