// Buckets are intervals of the parameters in canonical order. They are given by a list with the index of each bucket's
// first parameter (exec/executor.h).
#pragma once

#include <cstddef>
#include <span>

namespace dtrain {

// The index after the bucket's last parameter. `parameters` is the number of all parameters.
inline size_t bucket_end(std::span<const size_t> bucket_begin, size_t bucket, size_t parameters) {
  return bucket + 1 < bucket_begin.size() ? bucket_begin[bucket + 1] : parameters;
}

}  // namespace dtrain
