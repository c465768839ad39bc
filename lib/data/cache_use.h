// How well a cache of decoded pictures does.
#pragma once

#include <cstdint>

namespace dtrain::data {

struct CacheUse {
  int64_t hits = 0, misses = 0;     // pictures that were in the cache, and that were not, since the start
  int64_t pictures = 0, bytes = 0;  // that it keeps
  bool operator==(const CacheUse&) const = default;
};

}  // namespace dtrain::data
