#include "kvstore/worker/buckets.h"

#include <algorithm>
#include <numeric>

namespace dtrain::kvstore {

std::vector<size_t> plan_buckets(std::span<const uint64_t> elements_of_key, uint64_t target_bytes) {
  uint64_t left = std::accumulate(elements_of_key.begin(), elements_of_key.end(), uint64_t{0}) * sizeof(float);
  const uint64_t least = target_bytes / 64;
  std::vector<size_t> begins;
  uint64_t bytes = 0;  // size of the bucket that is being filled
  for (size_t key = elements_of_key.size(); key-- > 0;) {
    bytes += elements_of_key[key] * sizeof(float);
    const uint64_t enough = std::clamp(left / 2, least, std::max(target_bytes, least));
    if (key > 0 && bytes < enough) continue;
    begins.push_back(key);
    left -= bytes;
    bytes = 0;
  }
  if (begins.empty()) begins.push_back(0);
  std::reverse(begins.begin(), begins.end());
  return begins;
}

}  // namespace dtrain::kvstore
