// The memory that a program runs in: zero at first, in huge pages where the kernel has them.
#pragma once

#include <cstddef>

namespace dtrain::exec::cpu {

// Pages come when they are touched: a program that is compiled to be looked at (--dry-run) takes none. Moves, never
// copies. Throws std::bad_alloc.
class Arena {
 public:
  Arena() = default;
  explicit Arena(size_t size);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  [[nodiscard]] std::byte* data() const { return data_; }  // at a huge page's border; nullptr: of size 0
  [[nodiscard]] size_t size() const { return size_; }

 private:
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace dtrain::exec::cpu
