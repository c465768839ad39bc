// What every process of the job last reported about itself. The scheduler's progress report reads it.
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
  // false if a newer heartbeat has overtaken it. That can happen because the last heartbeat of a process comes with a
  // separate call.
  bool hear(Incarnation incarnation, int64_t sent_us, MemberPulse heard) DT_EXCLUDES(mutex_);
  // Records that the process is lost and that no further heartbeat of it is expected.
  void mark_lost(const Member& member) { mark(member, &MemberPulse::is_lost); }
  // Records that the process has said goodbye.
  void mark_ended(const Member& member) { mark(member, &MemberPulse::has_ended); }
  // Records that the worker has left as it was asked.
  void mark_left(const Member& member) { mark(member, &MemberPulse::has_left); }
  // The pulses of all processes that have reported, in the order of Member.
  [[nodiscard]] std::vector<MemberPulse> all() const DT_EXCLUDES(mutex_);

 private:
  void mark(const Member& member, bool MemberPulse::*state) DT_EXCLUDES(mutex_);

  struct Entry {
    Incarnation incarnation = 0;
    int64_t sent_us = 0;
    MemberPulse pulse;
  };

  mutable Mutex mutex_;
  std::map<Member, Entry> entries_ DT_GUARDED_BY(mutex_);
};

}  // namespace dtrain::rpc
