// A process of a simulated job (simulated_members.h), and what it has to do at which time. One that loses its seat and
// rejoins is a new entry, like any other incarnation.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "simulated_group.h"
#include "simulated_position.h"
#include "simulated_return.h"
#include "simulated_servers.h"
#include "sync/membership.h"
#include "sync/seat.h"

namespace dtrain::sync::membership {

// What is to happen, in the order of time; what is added first comes first at equal times.
class SimulatedTime {
 public:
  [[nodiscard]] Millis now() const { return now_; }
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  void at(Millis when, std::function<void()> what) {
    heap_.push_back({std::max(when, now_), order_++, std::move(what)});
    std::ranges::push_heap(heap_, is_later);
  }
  void step() {
    std::ranges::pop_heap(heap_, is_later);
    const Timed next = std::move(heap_.back());
    heap_.pop_back();
    now_ = next.when;
    next.what();
  }

 private:
  struct Timed {
    Millis when = 0;
    uint64_t order = 0;
    std::function<void()> what;
  };
  static bool is_later(const Timed& a, const Timed& b) {
    return a.when != b.when ? a.when > b.when : a.order > b.order;
  }
  std::vector<Timed> heap_;
  uint64_t order_ = 0;
  Millis now_ = 0;
};

// For what a worker waits until all its requests to slices are answered.
enum class SliceWait { kNothing, kStep, kFirstWeights, kRefresh, kStatistics, kHandOver, kGiveStatistics };

struct OpenRequest {
  SliceRequest request = {};  // number 0: none
  SliceAnswer answer = {};    // to the last request
};

// ---- What a worker of a job without servers knows.

// The beginning of a step, to which the worker may have to go back.
struct StepMark {
  bool is_set = false;
  SimulatedPosition at = {};
  std::vector<int64_t> reading = {};
  uint64_t next = 0, statistics = 0;
};

struct SimulatedCheckpoint {
  SimulatedPosition at = {};
  std::vector<SimulatedWeights> buckets = {};
  uint64_t statistics = 0;
};

// For what it waits, apart from barriers.
enum class GroupWait { kNothing, kWeights, kGradient, kGroup, kShare, kGive };
// What it does when it has the weights of all its steps.
enum class WithWeights { kComputes, kMeets, kStops, kLeaves };
// Why it comes to the barrier at which all workers agree on what follows.
enum class Coming { kOnItsWay, kJoins, kTorn, kHasGroup, kHasShared, kHasGoneBack };
// What it does when the group is made.
enum class WithGroup { kBegins, kSteps, kShares, kWelcomes };

struct GroupMember {
  GroupEnd end = {};
  uint64_t statistics = 0, kept_statistics = 0;
  bool is_new = false;  // it has no weights yet
  bool settles_again = false;
  bool is_mixed = false;  // see train/group_renewal.h
  std::array<StepMark, 2> marks = {};
  GroupWait waits = GroupWait::kNothing;
  WithWeights with_weights = WithWeights::kComputes;
  Coming coming = Coming::kOnItsWay;
  WithGroup with_group = WithGroup::kBegins;
  size_t open = 0;                                   // operations that have begun and are not complete
  bool compares = false;                             // the members compare their buckets
  std::vector<uint32_t> ranks = {};                  // of the members
  std::vector<uint32_t> tried = {};                  // with which it has last tried to make the group
  int failures = 0;                                  // to do so
  std::optional<uint32_t> unreached = {};            // as in BarrierEnter
  std::pair<uint64_t, size_t> connecting = {};       // the group, and the place of the member to which it connects
  std::vector<uint32_t> joined = {}, lost = {};      // as the last barrier said
  std::set<uint32_t> newcomers = {}, replaced = {};  // see train/group_renewal.h: take_newcomers() and lost()
  bool awaits_border = false;                        // at the end of an epoch that does not count
  bool has_gone_back = false;
  uint64_t view = 0;  // number of the newest
  std::optional<SimulatedCheckpoint> saving = {};
  // By the other worker's incarnation: when the connection was cut, and when it was mended.
  struct Cut {
    Millis since = 0;
    std::optional<Millis> until = {};
    bool is_refused = false;
    std::vector<GroupMessage> held = {};
  };
  std::map<uint64_t, Cut> cuts = {};
  std::map<uint64_t, std::deque<GroupMessage>> sent = {};  // to each other worker, and not read yet
  std::map<uint64_t, Millis> reaches = {};                 // when its last message reaches each other worker
  [[nodiscard]] bool is_cut(uint64_t from) const {
    const auto cut = cuts.find(from);
    return cut != cuts.end() && !cut->second.until;
  }
};

struct SimulatedProcess {
  uint32_t id = 0;
  bool works = false;  // whether it is a worker
  uint32_t rank = 0;
  bool is_late = false, takes_part = true;
  int64_t step_ms_max = 1;
  bool has_joined = false;  // whether its request to join has reached the scheduler
  bool has_seat = false;    // of a late one: the scheduler has answered its request
  bool admitted = false, crashed = false, ended = false, failed = false, stream = false;
  Millis asleep_until = 0;
  std::optional<Join> asks = {};  // its request to join, until that is answered
  uint64_t join_call = 0;         // number of its latest call with this request
  bool awaits_answer = false;     // this call has reached the scheduler that runs now
  std::optional<Done> done = {};  // its goodbye, until that is answered
  uint64_t viewed = 0;            // of a server: the newest view that it has carried out
  bool is_lost = false;           // whether the job continues without it
  Millis lost_ms = 0;             // since when
  seat::Worker seat = {};         // of a worker; a process that rejoins takes it along
  bool has_unwound = false;  // it has lost its seat, or a server says so, and does nothing more as this incarnation
  int64_t flaps = 0;         // how often it sleeps again when it has rejoined

  // ---- Of a worker.
  uint64_t begun = 0, next = 0;  // the number of steps that it has begun, and the number of the next one
  uint64_t applied = 0;          // gradients of all workers, as of its last answer
  SimulatedPosition at = {};
  std::vector<int64_t> reading = {};                // the records of its part, from the last division on
  std::vector<uint32_t> live = {}, newcomers = {};  // the ranks, as the last barrier and the last border named them
  std::vector<int64_t> batch = {};                  // those of its step
  std::vector<SimulatedWeights> weights = {};       // if workers update: of each slice, or of each bucket in a group
  std::vector<OpenRequest> open = {};               // by slice
  SliceWait waits = SliceWait::kNothing;
  uint64_t requests = 0, meetings = 0;        // numbers of its requests, and of the rounds of the statistics
  std::map<uint32_t, Millis> stream_ms = {};  // when its last message reaches each server
  std::map<uint32_t, Millis> stuck_ms = {};   // until when its messages to a server are stuck
  std::map<uint32_t, Millis> cut = {};        // when its connections to servers were cut, by the server's rank
  uint64_t barriers = 0;
  std::optional<BarrierEnter> in_barrier = {};
  bool stopping = false;               // it has said so at the meeting
  bool stops = false;                  // it ends after this meeting
  uint64_t call = 0;                   // number of its latest call of a barrier
  bool call_broke = false;             // the call broke with the connection
  std::optional<uint64_t> asked = {};  // the call that the scheduler will answer
  uint64_t held = 0, passed = 0;       // numbers of the newest Hold and of the last border
  uint64_t border = 0;                 // the border to which it has come
  bool waits_at_gate = false;
  std::optional<StopAfter> stop_after = {};
  bool prepared = false, trains = false;
  bool is_gone = false;    // the scheduler knows that it has ended
  bool is_to_end = false;  // it was told to leave, was lost, or has joined when nobody was left who knew the position
  bool must_leave = false, has_left = false;
  GroupMember group = {};     // in a job without servers
  ReturningWorker back = {};  // in a job whose servers take snapshots

  // ---- Of a server.
  std::optional<size_t> serves = {};  // its number among all servers that there ever were
  Millis report_ms = 0;               // when its last report reaches the scheduler
  Millis carried_out_ms = 0;          // when it has carried out the last view

  [[nodiscard]] bool is_worker() const { return works && takes_part; }
  [[nodiscard]] bool is_over() const { return crashed || ended || failed || has_unwound; }
  [[nodiscard]] Incarnation incarnation() const { return 1'000 - id; }  // not in the order of ranks
};

}  // namespace dtrain::sync::membership
