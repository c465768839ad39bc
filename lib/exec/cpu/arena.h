// The memory that a program runs in: initially zero, and in huge pages if the kernel provides them.
#pragma once

#include <cstddef>

namespace dtrain::exec::cpu {

// Pages are allocated when they are first touched, so a program that is only compiled for inspection (--dry-run) takes
// none. Movable, not copyable. Throws std::bad_alloc.
class Arena {
 public:
  Arena() = default;
  explicit Arena(size_t size);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  [[nodiscard]] std::byte* data() const { return data_; }  // aligned to a huge page; nullptr if the size is 0
  [[nodiscard]] size_t size() const { return size_; }

 private:
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Throws std::bad_alloc if the process cannot map this number of further bytes (ulimit -v). To be called for memory
// that libraries allocate in a step without checking the result.
void require_address_space(size_t bytes);

}  // namespace dtrain::exec::cpu
