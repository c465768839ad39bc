#include "exec/cpu/arena.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace dtrain::exec::cpu {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

Arena::Arena(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  data_ = static_cast<std::byte*>(std::aligned_alloc(kHugePage, rounded));
  if (data_ == nullptr) throw std::bad_alloc();
  madvise(data_, rounded, MADV_HUGEPAGE);  // a wish: without it the pages are small, and nothing else changes
  std::memset(data_, 0, bytes);
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Arena::~Arena() {
  std::free(data_);
}

}  // namespace dtrain::exec::cpu
