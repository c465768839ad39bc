// Which parameters travel together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dtrain::kvstore {

inline constexpr uint64_t kBucketBytes = 4u << 20;

// The index of each bucket's first parameter (exec's bucket_begin), for parameters of these sizes in canonical order.
// Gradients come last layer first, so the list is cut from its end: a bucket is closed once it has `target_bytes`, or
// half of all bytes that are left. So buckets get smaller towards the first layers, whose gradients are the last to
// come and whose weights are the first to be needed; none but the first is below target_bytes / 64, where messages cost
// more than bytes.
std::vector<size_t> plan_buckets(std::span<const uint64_t> elements_of_key, uint64_t target_bytes = kBucketBytes);

}  // namespace dtrain::kvstore
