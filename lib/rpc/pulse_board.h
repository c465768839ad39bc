// What every process of the job last reported about itself, as the scheduler's report reads it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "rpc/scheduler.h"

namespace dtrain::rpc {

// May be used by several threads.
class PulseBoard {
 public:
  // Records a heartbeat of the process `incarnation`, sent at `sent_us` of its own clock, and returns true. Returns
  // false if a newer heartbeat has overtaken it: a process sends its last one by a call of its own.
  bool hear(Incarnation incarnation, int64_t sent_us, MemberPulse heard) DT_EXCLUDES(mutex_);
  // No further heartbeat of this process is expected.
  void mark_lost(const Member& member) DT_EXCLUDES(mutex_);
  // The pulses of all processes that have reported, in the order of Member.
  [[nodiscard]] std::vector<MemberPulse> all() const DT_EXCLUDES(mutex_);

 private:
  struct Entry {
    Incarnation incarnation = 0;
    int64_t sent_us = 0;
    MemberPulse pulse;
  };

  mutable Mutex mutex_;
  std::map<Member, Entry> entries_ DT_GUARDED_BY(mutex_);
};

}  // namespace dtrain::rpc
