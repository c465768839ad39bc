// An array that is read while it is being replaced: answers go out straight from it, and the next update may happen
// already.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/buffer.h"

namespace dtrain::kvstore {

// Values that stay as they are until the last copy of `owner` is gone.
struct LentValues {
  std::span<const float> values;
  std::shared_ptr<const void> owner;
};

// One thread at a time calls it; what was lent may be read and given back by any thread, also after the array is gone.
class VersionedArray {
 public:
  explicit VersionedArray(size_t size) { versions_.push_back(std::make_shared<Version>(size)); }

  [[nodiscard]] std::span<const float> values() const { return versions_.front()->values.span(); }
  // The values, to be changed. While somebody reads them: a copy, in a buffer that nobody reads any more if there is
  // one. In BSP all readers have gone before the next update, so the copy is rare.
  std::span<float> writable();
  [[nodiscard]] LentValues lend() const;

  [[nodiscard]] size_t buffers() const { return versions_.size(); }

 private:
  struct Version {
    explicit Version(size_t size) : values(size) {}
    Buffer<float> values;
    // Not shared_ptr's use_count, which orders nothing: the writer must see that the last reader has finished.
    std::atomic<uint32_t> readers = 0;
  };
  std::vector<std::shared_ptr<Version>> versions_;  // the first is the current one, the others are spare or being read
};

}  // namespace dtrain::kvstore
