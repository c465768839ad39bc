// Divides the parameters into buckets. The gradients of a bucket are sent together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dtrain::kvstore {

inline constexpr uint64_t kBucketBytes = 4u << 20;

// Returns the index of each bucket's first parameter (the executor's bucket_begin), given the parameters' sizes in
// canonical order. Backward produces the gradients of the last layer first, so the list is cut from its end: a bucket
// is closed once it has `target_bytes` or half of the bytes that were left when it began. Buckets therefore get smaller
// towards the first layers, whose gradients come last and whose weights are needed first. Only the first bucket may be
// smaller than target_bytes / 64; below that, the cost of a message exceeds the cost of its bytes.
std::vector<size_t> plan_buckets(std::span<const uint64_t> elements_of_key, uint64_t target_bytes = kBucketBytes);

}  // namespace dtrain::kvstore
