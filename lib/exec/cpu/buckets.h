// When a program must wait for a bucket's weights, and when its gradients are complete.
#pragma once

#include <cstddef>
#include <vector>

#include "exec/cpu/program.h"

namespace dtrain::exec::cpu {

struct BucketSchedule {
  // By bucket: the step before which its weights are needed; ascending, since buckets are awaited in order.
  std::vector<size_t> wait_before;
  // By bucket: the backward step after which nothing touches its weights and gradients any more; descending, since the
  // last bucket is announced first.
  std::vector<size_t> ready_after;
};

// bucket_begin: index of each bucket's first parameter, ascending, the first is 0. Buckets that nothing reads are due
// at the end of the forward pass, and ready with the next later one.
BucketSchedule schedule_buckets(const Program& program, const std::vector<size_t>& bucket_begin);

}  // namespace dtrain::exec::cpu
