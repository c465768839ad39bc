// When a program must wait for a bucket's weights, and when the bucket's gradients are complete.
#pragma once

#include <cstddef>
#include <vector>

#include "exec/cpu/program.h"

namespace dtrain::exec::cpu {

struct BucketSchedule {
  // For each bucket, the step before which its weights are needed. Ascending, because buckets are awaited in order.
  std::vector<size_t> wait_before;
  // For each bucket, the last backward step that uses its weights or gradients. Descending, because the last bucket is
  // announced first.
  std::vector<size_t> ready_after;
};

// bucket_begin: index of each bucket's first parameter, ascending, starting with 0. A bucket that no step uses is
// awaited before the same step, and is ready after the same step, as the next later bucket. If the last bucket is
// unused, it is awaited at the end of the forward pass.
BucketSchedule schedule_buckets(const Program& program, const std::vector<size_t>& bucket_begin);

}  // namespace dtrain::exec::cpu
