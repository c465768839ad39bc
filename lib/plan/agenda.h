// The pending actions of a simulation (simulator.h), ordered by virtual time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/error.h"
#include "plan/virtual_network.h"
#include "sync/machine.h"

namespace dtrain::plan {

// What a worker sends to a server.
struct Request {
  enum class Kind : uint8_t { kPull, kPushPull, kRefresh } kind = Kind::kPull;
  sync::Step wanted = 0;  // the step that the worker wants to begin; a push carries the gradient of the step before it
  uint32_t exchange = 0;  // number of the exchange among those of this worker; the reply repeats it
};

// What a server sends to a worker.
struct Reply {
  sync::Step step = 0;   // the step that the worker may begin
  uint64_t applied = 0;  // number of gradients applied to the weights in this reply
  uint32_t exchange = 0;
  // Number of the sync::Answer that the reply carries; the Answers of all servers are numbered from 0.
  uint64_t number = 0;
};

// An action at a point in virtual time.
struct Action {
  enum class Kind : uint8_t {
    kRequestComes,  // the first byte of the request arrives
    kRequest,
    kReplyComes,
    kReply,
    kComputed,
    kResend,
    kCrash,
    kCrashKnown,
    kJoin,
  } kind = Kind::kComputed;
  sync::Worker worker = 0;
  uint32_t incarnation = 0;
  uint32_t server = 0;
  Request request = {};
  Reply reply = {};
};

// Actions with the same time are taken in the order in which they were added, which makes a simulation deterministic.
//
// A radix heap: no action is added before the time of the last one that was taken, so an action waits in the bucket of
// the highest bit in which its time differs from that time, and moves to lower buckets only. The time for an action
// therefore does not depend on how many others wait; a binary heap took twice as long with 10,000 workers as with 64.
class Agenda {
 public:
  void add(Time time, const Action& action) {
    DT_CHECK(time >= now_, "an action at {} ns is added at {} ns", time, now_);
    uint32_t slot = static_cast<uint32_t>(actions_.size());
    if (free_.empty()) {
      actions_.push_back(action);
    } else {
      slot = free_.back();
      free_.pop_back();
      actions_[slot] = action;
    }
    buckets_[bucket_of(time)].push_back({time, slot});
    count_++;
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  // The time of the next action; there must be one. From now on, no action may be added before this time.
  [[nodiscard]] Time next_time() {
    settle();
    return now_;
  }
  Action take() {
    settle();
    const uint32_t slot = buckets_[0][taken_++].slot;
    if (taken_ == buckets_[0].size()) {
      buckets_[0].clear();
      taken_ = 0;
    }
    count_--;
    free_.push_back(slot);
    return actions_[slot];
  }

 private:
  struct Entry {
    Time time = 0;
    uint32_t slot = 0;
  };

  [[nodiscard]] size_t bucket_of(Time time) const { return static_cast<size_t>(std::bit_width(time ^ now_)); }

  // Moves to the time of the next action, so that bucket 0 has the actions of that time. All lower buckets are empty
  // when a bucket is divided among them, so each keeps the order in which actions were added.
  void settle() {
    if (taken_ < buckets_[0].size()) return;
    size_t lowest = 1;
    while (buckets_[lowest].empty()) lowest++;
    divided_.swap(buckets_[lowest]);
    now_ = std::ranges::min(divided_, {}, &Entry::time).time;
    for (const Entry& entry : divided_) buckets_[bucket_of(entry.time)].push_back(entry);
    divided_.clear();
  }

  Time now_ = 0;
  std::array<std::vector<Entry>, std::numeric_limits<Time>::digits + 1> buckets_;
  std::vector<Entry> divided_;  // used by settle()
  size_t taken_ = 0;            // entries of bucket 0 that were taken
  size_t count_ = 0;
  std::vector<Action> actions_;
  std::vector<uint32_t> free_;  // places in actions_
};

}  // namespace dtrain::plan
