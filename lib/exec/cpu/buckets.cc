#include "exec/cpu/buckets.h"

#include <algorithm>

namespace dtrain::exec::cpu {

namespace {

size_t bucket_of(size_t parameter, const std::vector<size_t>& bucket_begin) {
  const auto after = std::upper_bound(bucket_begin.begin(), bucket_begin.end(), parameter);
  return static_cast<size_t>(after - bucket_begin.begin()) - 1;
}

}  // namespace

BucketSchedule schedule_buckets(const Program& program, const std::vector<size_t>& bucket_begin) {
  const size_t forward = program.forward_count();
  BucketSchedule schedule{std::vector<size_t>(bucket_begin.size(), forward),
                          std::vector<size_t>(bucket_begin.size(), forward)};
  for (size_t s = 0; s < program.steps().size(); s++) {
    for (const Arg& arg : program.steps()[s].args) {
      const auto& parameter = program.values()[program.root(arg.value)].parameter;
      if (!parameter) continue;
      const size_t bucket = bucket_of(*parameter, bucket_begin);
      if (s < forward) {
        schedule.wait_before[bucket] = std::min(schedule.wait_before[bucket], s);
      } else {
        schedule.ready_after[bucket] = std::max(schedule.ready_after[bucket], s);
      }
    }
  }
  for (size_t b = bucket_begin.size() - 1; b > 0; b--) {
    schedule.wait_before[b - 1] = std::min(schedule.wait_before[b - 1], schedule.wait_before[b]);
    schedule.ready_after[b - 1] = std::max(schedule.ready_after[b - 1], schedule.ready_after[b]);
  }
  return schedule;
}

}  // namespace dtrain::exec::cpu
