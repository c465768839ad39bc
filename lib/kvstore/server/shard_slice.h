// One slice on its server: tells the slice's state machine what workers sent, and carries out what the machine decides
// on the slice's values and on the requests that wait. Used only by shard.cc.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kvstore/server/request.h"
#include "kvstore/server/shard.h"
#include "kvstore/server/slice_values.h"
#include "kvstore/server/waiters.h"

namespace dtrain::kvstore {

// Thread-safe: each call takes the slice's lock.
//
// A push only adds the gradient to a sum. If it completes the round of a large slice, the update and the answers are
// left to settle(), which another thread can call while the caller receives the next message. If an event comes first,
// its thread does what is left before it does anything else, so the order of effects is always that of the events.
class ShardSlice {
 public:
  // `reports`: this is the slice for options.on_report, options.on_update and ShardCounts::staleness.
  ShardSlice(const ShardOptions& options, const Slice& slice, size_t slot_count, bool reports);

  [[nodiscard]] const Slice& slice() const { return slice_; }

  // Returns true if settle() must be called.
  [[nodiscard]] bool push(const Request& request, Pieces payload);
  void settle();
  void pull(const Request& request);
  void refresh(const Request& request);
  void control(const ControlCall& call, Pieces payload);

  void leave(uint32_t rank);
  void join(uint32_t rank, uint64_t step);
  void overdue(double seconds, std::vector<std::string>& out) const;
  [[nodiscard]] ShardCounts counts() const;

 private:
  [[nodiscard]] uint64_t version() const { return machine_ ? machine_->version() : 0; }
  [[nodiscard]] Counters counters() const { return {.samples = values_.samples(), .updates = version()}; }
  [[nodiscard]] bool holds_slice(Pieces payload) const;  // exactly its values

  Status take_gradient(const Header& header, Pieces payload, bool is_intact);
  void assign_state(const ControlCall& call, const AssignState& assign, Pieces payload);
  void assign_values(const ControlCall& call, const AssignValues& assign, Pieces payload);
  void regroup(const ControlCall& call, const Regroup& regroup);
  void pull_state(const ControlCall& call, const PullState& pull);
  void begin_rounds(uint64_t version);

  void feed(const sync::Event& event);
  void request_weights(const Request& request, uint64_t step, Status status);
  void carry_out_effects();
  void carry_out(const sync::Effect& effect);
  void report_update(sync::Group group, uint64_t staleness);
  void answer_waiter(const sync::Answer& effect);
  void refuse_waiter(uint32_t rank, uint64_t step);

  void refuse(const Request& request, Status why);
  void refuse(const ControlCall& call, Status why);
  void acknowledge(const ControlCall& call, Status status);
  [[nodiscard]] std::string describe(const Waiters::Waiter& waiter) const;

  const ShardOptions& options_;
  const Slice slice_;
  const bool leaves_updates_;  // to settle()
  sync::Policy policy_;        // the scheme's; for statistics BSP, because their rounds include all workers

  mutable std::mutex mutex_;
  std::optional<sync::Machine> machine_;  // set once the slice has been assigned
  std::vector<sync::Effect> effects_;     // decided, not carried out yet
  std::vector<sync::Effect> decided_;     // of one event; kept for its memory
  SliceValues values_;
  Waiters waiters_;
  std::set<uint32_t> absent_;              // ranks that left
  uint64_t assigned_by_ = 0;               // number of the request that completed the last assignment
  uint64_t regrouped_by_ = 0;              // number of the last request that set the groups
  std::optional<StalenessRecord> record_;  // only in the slice that reports
  ShardCounts counts_;
};

}  // namespace dtrain::kvstore
