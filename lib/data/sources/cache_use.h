// How well a cache of decoded pictures does.
#pragma once

#include <cstdint>

namespace dtrain::data {

struct CacheUse {
  int64_t hits = 0, misses = 0;     // pictures that were in the cache, and that were not, since the start
  int64_t pictures = 0, bytes = 0;  // that it keeps
  bool operator==(const CacheUse&) const = default;

  [[nodiscard]] bool any() const { return hits + misses > 0; }
  // The part of the pictures since `before` that were in the cache; 0 if there were none.
  [[nodiscard]] double hit_share(const CacheUse& before) const {
    const int64_t all = hits + misses - before.hits - before.misses;
    return all > 0 ? static_cast<double>(hits - before.hits) / static_cast<double>(all) : 0;
  }
};

}  // namespace dtrain::data
