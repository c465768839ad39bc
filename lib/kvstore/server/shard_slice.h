// One slice on its server. It passes the workers' messages to the slice's state machine as events, and applies the
// machine's decisions to the slice's values and to the waiting requests. Used only by shard.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "kvstore/server/applied_requests.h"
#include "kvstore/server/outbox.h"
#include "kvstore/server/overdue_waits.h"
#include "kvstore/server/request.h"
#include "kvstore/server/shard.h"
#include "kvstore/server/slice_values.h"
#include "kvstore/server/snapshots.h"
#include "kvstore/server/waiters.h"

namespace dtrain::kvstore {

// Thread-safe: each call takes the slice's lock. Answers are sent without the lock by send_answers(), which must be
// called after each call of another non-const function.
//
// A push only adds the gradient to a sum. If it completes the round of a large slice, the update and the answers are
// left to settle(), which another thread can call while the caller receives the next message. If an event arrives
// before settle(), the event's thread first does the remaining work, so the order of effects is always that of the
// events.
class ShardSlice {
 public:
  // `reports`: whether this slice calls options.on_report, on_update and on_rate and fills in ShardCounts::staleness.
  // `is_damaged` is shared by all slices of the shard. It is set if an exception leaves a call, which may have done
  // half of its work; every later call does nothing. `snapshots`: null if the server takes none; must outlive the
  // object.
  ShardSlice(const ShardOptions& options, const Slice& slice, size_t slot_count, bool reports,
             std::atomic<bool>& is_damaged, Snapshots* snapshots = nullptr);

  [[nodiscard]] const Slice& slice() const { return slice_; }
  // Where the work for this message is recorded; null if it is not recorded.
  [[nodiscard]] telemetry::Timeline* timeline_of(const Header& header) const;

  // Returns true if settle() must be called.
  [[nodiscard]] bool push(const Request& request, Pieces payload) DT_EXCLUDES(mutex_);
  void settle() DT_EXCLUDES(mutex_);
  void send_answers() DT_EXCLUDES(mutex_);
  [[nodiscard]] bool has_answers() const { return !outbox_.empty(); }
  void pull(const Request& request) DT_EXCLUDES(mutex_);
  void refresh(const Request& request) DT_EXCLUDES(mutex_);
  void control(const ControlCall& call, Pieces payload) DT_EXCLUDES(mutex_);

  void leave(uint32_t rank) DT_EXCLUDES(mutex_);
  // From `step` on, or from the slice's next round of this rank if that comes later. Statistics have rounds of their
  // own, so their next one is meant.
  void join(uint32_t rank, uint64_t step) DT_EXCLUDES(mutex_);
  // Returns to the part, or, with null, only begins new rounds at its version, if the slice has values. All
  // waiting requests, messages that have not been sent, unfinished sums and numbers of applied requests are forgotten.
  // Then any worker may assign the values of a slice that has none.
  void restore(const SnapshotPart* part) DT_EXCLUDES(mutex_);
  // Adds this slice's waits that began at `since_max` or earlier.
  void overdue(Waiters::Clock::time_point since_max, OverdueWaits& out) const DT_EXCLUDES(mutex_);
  [[nodiscard]] ShardCounts counts() const DT_EXCLUDES(mutex_);

 private:
  [[nodiscard]] uint64_t version() const DT_REQUIRES(mutex_) { return machine_ ? machine_->version() : 0; }
  [[nodiscard]] Counters counters() const DT_REQUIRES(mutex_) {
    return {.samples = values_.samples(), .updates = version()};
  }
  [[nodiscard]] bool holds_slice(Pieces payload) const;  // whether the payload has exactly as many values as the slice

  // Which arrays of the optimizer state have arrived.
  struct AssignedStates {
    RequestId request = {};  // of the assignment
    std::set<uint32_t> intact = {};
    std::set<uint32_t> damaged = {};  // arrays that arrived damaged and have not arrived intact since
  };

  // Does the work under the lock. A damaged shard does nothing anymore. If the work throws, the shard becomes damaged.
  template <class Work>
  void change(const Work& work) DT_EXCLUDES(mutex_);

  Status take_gradient(const Header& header, Pieces payload, bool is_intact) DT_REQUIRES(mutex_);
  void assign_state(const ControlCall& call, const AssignState& assign, Pieces payload, bool is_intact)
      DT_REQUIRES(mutex_);
  void assign_values(const ControlCall& call, const AssignValues& assign, Pieces payload) DT_REQUIRES(mutex_);
  [[nodiscard]] bool may_align(const Regroup::Alignment& alignment) const DT_REQUIRES(mutex_);
  void regroup(const ControlCall& call, const Regroup& regroup) DT_REQUIRES(mutex_);
  void set_rate(const ControlCall& call, const SetRate& rate) DT_REQUIRES(mutex_);
  void pull_state(const ControlCall& call, const PullState& pull) DT_REQUIRES(mutex_);
  // `leads`: the first step of each worker, counted from the version; empty: the version is the first step of all.
  void begin_rounds(uint64_t version, std::span<const uint64_t> leads = {}) DT_REQUIRES(mutex_);
  // Takes the slice's part of a snapshot if its version is that of one. To be called before weights of this version are
  // handed out.
  void take_part() DT_REQUIRES(mutex_);
  void add_held(Waiters::Clock::time_point since_max, OverdueWaits& out) const DT_REQUIRES(mutex_);

  void feed(const sync::Event& event) DT_REQUIRES(mutex_);
  void request_weights(const Request& request, uint64_t step, Status status) DT_REQUIRES(mutex_);
  void carry_out_effects() DT_REQUIRES(mutex_);
  void carry_out(const sync::Effect& effect) DT_REQUIRES(mutex_);
  void count_round(SliceValues::Outcome outcome) DT_REQUIRES(mutex_);
  void report_update(sync::Group group, uint64_t staleness) DT_REQUIRES(mutex_);
  SliceValues::Outcome apply(const sync::Apply& apply) DT_REQUIRES(mutex_);
  void answer_waiter(const sync::Answer& effect) DT_REQUIRES(mutex_);
  void refuse_waiter(uint32_t rank, uint64_t step) DT_REQUIRES(mutex_);

  void count_refusal(uint32_t rank, Status why) DT_REQUIRES(mutex_);
  void refuse(const Request& request, Status why) DT_REQUIRES(mutex_);
  void refuse(const ControlCall& call, Status why) DT_REQUIRES(mutex_);
  void acknowledge(const ControlCall& call, Status status) DT_REQUIRES(mutex_);
  void answer_again(const ControlCall& call) DT_REQUIRES(mutex_);
  void complete(const ControlCall& call) DT_REQUIRES(mutex_);

  const ShardOptions& options_;
  const Slice slice_;
  const bool leaves_updates_;  // whether updates are left to settle()
  std::atomic<bool>& is_damaged_;
  Snapshots* const snapshots_;  // null if the slice takes no part in snapshots
  Outbox outbox_;               // messages are added under the lock

  mutable Mutex mutex_;
  sync::Policy policy_
      DT_GUARDED_BY(mutex_);  // the scheme's policy; for statistics BSP, because their rounds include all workers
  std::optional<sync::Machine> machine_
      DT_GUARDED_BY(mutex_);  // set once the leader has assigned the slice's values (AssignValues)
  std::vector<sync::Effect> effects_ DT_GUARDED_BY(mutex_);  // effects that are decided but not carried out yet
  std::vector<sync::Effect> decided_ DT_GUARDED_BY(mutex_);  // effects of one event; a member only to reuse its memory
  SliceValues values_ DT_GUARDED_BY(mutex_);
  Waiters waiters_ DT_GUARDED_BY(mutex_);
  std::set<uint32_t> absent_ DT_GUARDED_BY(mutex_);  // ranks that have left
  AssignedStates states_ DT_GUARDED_BY(mutex_);      // arrays of the assignment that is not complete yet
  bool is_restored_ DT_GUARDED_BY(mutex_) = false;   // whether restore() was called
  AppliedRequests applied_ DT_GUARDED_BY(mutex_);    // those that changed something
  // Statistics of the rounds; nullopt unless this slice reports (on_report).
  std::optional<StalenessRecord> record_ DT_GUARDED_BY(mutex_);
  ShardCounts counts_ DT_GUARDED_BY(mutex_);
};

}  // namespace dtrain::kvstore
