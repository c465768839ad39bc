#include "exec/cpu/arena.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

namespace dtrain::exec::cpu {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

// Maps one huge page more than requested, because the kernel aligns mappings only to small pages.
Arena::Arena(size_t size) : size_(size) {
  if (size == 0) return;
  const size_t bytes = size + kHugePage;
  void* mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = mapping;
  mapped_ = bytes;
  const auto address = reinterpret_cast<uintptr_t>(mapping_);
  data_ = static_cast<std::byte*>(mapping_) + (kHugePage - address % kHugePage) % kHugePage;
  madvise(data_, size, MADV_HUGEPAGE);  // huge pages only make access faster, so a failure does not matter
}

Arena::Arena(Arena&& other) noexcept {
  *this = std::move(other);
}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Arena::~Arena() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

void require_address_space(size_t bytes) {
  void* const mapping = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  munmap(mapping, bytes);
}

}  // namespace dtrain::exec::cpu
