// Host memory for floats. A buffer owns its memory. Functions take spans, which borrow it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <utility>

namespace dtrain {

// A fixed number of elements of type T, initially zero. The memory is aligned to a cache line and to an AVX-512
// register. Large buffers use huge pages if the kernel provides them: with small pages, a pass over 100 MB spends more
// time waiting for the TLB than for memory. Movable, not copyable.
template <class T>
class Buffer {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kHugePage = size_t{2} << 20;

  Buffer() = default;
  explicit Buffer(size_t size) : size_(size) {
    if (size == 0) return;
    const size_t alignment = size * sizeof(T) < kHugePage ? kAlignment : kHugePage;
    const size_t bytes = (size * sizeof(T) + alignment - 1) / alignment * alignment;
    data_ = static_cast<T*>(std::aligned_alloc(alignment, bytes));
    if (data_ == nullptr) throw std::bad_alloc();
    if (alignment == kHugePage) madvise(data_, bytes, MADV_HUGEPAGE);  // a hint that the kernel may ignore
    std::memset(static_cast<void*>(data_), 0, bytes);
  }
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() { std::free(data_); }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  [[nodiscard]] std::span<T> span() { return {data_, size_}; }
  [[nodiscard]] std::span<const T> span() const { return {data_, size_}; }
  [[nodiscard]] std::span<T> part(size_t begin, size_t count) { return span().subspan(begin, count); }
  [[nodiscard]] std::span<const T> part(size_t begin, size_t count) const { return span().subspan(begin, count); }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace dtrain
