#include "kvstore/server/versioned_array.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"

namespace dtrain::kvstore {

uint32_t CachedChecksum::of(std::span<const float> values) {
  constexpr uint64_t kIsKnown = uint64_t{1} << 32;
  uint64_t known = known_.load(std::memory_order_relaxed);
  if (known == 0) {
    known = kIsKnown | crc32c(std::as_bytes(values));
    known_.store(known, std::memory_order_relaxed);
  }
  return static_cast<uint32_t>(known);
}

uint32_t LentValues::checksum() const {
  return cached != nullptr ? cached->of(values) : crc32c(std::as_bytes(values));
}

std::span<float> VersionedArray::writable() {
  const auto unread = [](const std::shared_ptr<Version>& v) { return v->readers.load(std::memory_order_acquire) == 0; };
  const auto free = std::find_if(versions_.begin(), versions_.end(), unread);
  if (free == versions_.begin()) {
    versions_.front()->checksum.forget();
    return versions_.front()->values.span();
  }
  const std::span<const float> from = values();
  const std::shared_ptr<Version> copy = free != versions_.end() ? *free : std::make_shared<Version>(from.size());
  if (free == versions_.end()) versions_.push_back(copy);
  copy->checksum.forget();
  std::memcpy(copy->values.data(), from.data(), from.size_bytes());
  std::iter_swap(versions_.begin(), std::find(versions_.begin(), versions_.end(), copy));
  return copy->values.span();
}

LentValues VersionedArray::lend() const {
  const std::shared_ptr<Version>& version = versions_.front();
  version->readers.fetch_add(1, std::memory_order_relaxed);
  std::shared_ptr<const void> owner(
      version->values.data(), [version](const void*) { version->readers.fetch_sub(1, std::memory_order_release); });
  return {version->values.span(), std::move(owner), &version->checksum};
}

}  // namespace dtrain::kvstore
