// An array that can be read while it is being replaced: answers are sent straight from its memory while the next update
// may already be running.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/buffer.h"

namespace dtrain::kvstore {

// The CRC-32C of an array, computed at the first call. Thread-safe, but not while the array changes.
class CachedChecksum {
 public:
  uint32_t of(std::span<const float> values);
  // To be called when the values are about to change.
  void forget() { known_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> known_ = 0;  // the checksum with bit 32 set; 0: not computed
};

// Values that another thread may read. They do not change until the last copy of `owner` is gone.
struct LentValues {
  std::span<const float> values = {};
  std::shared_ptr<const void> owner = nullptr;
  // Checksum of these values, valid as long as `owner` exists; null: each call computes it.
  CachedChecksum* cached = nullptr;

  [[nodiscard]] uint32_t checksum() const;
};

// Not thread-safe. Lent values may be read and released by any thread, even after the array is gone.
class VersionedArray {
 public:
  explicit VersionedArray(size_t size) { versions_.push_back(std::make_shared<Version>(size)); }

  [[nodiscard]] std::span<const float> values() const { return versions_.front()->values.span(); }
  // Returns the values for writing. If they are still being read, they are first copied into an unused buffer, or into
  // a new one. In BSP all readers have finished before the next update, so copies are rare. To be called before each
  // write, because it also forgets the checksum.
  std::span<float> writable();
  [[nodiscard]] LentValues lend() const;

  [[nodiscard]] size_t buffers() const { return versions_.size(); }

 private:
  struct Version {
    explicit Version(size_t size) : values(size) {}
    Buffer<float> values;
    CachedChecksum checksum;
    // shared_ptr's use_count is not enough because it orders no memory accesses: the writer must see that the last
    // reader has finished.
    std::atomic<uint32_t> readers = 0;
  };
  std::vector<std::shared_ptr<Version>> versions_;  // the first is the current one; the others are spare or being read
};

}  // namespace dtrain::kvstore
