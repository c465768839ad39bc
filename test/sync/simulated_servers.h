// The servers of a simulated job: each has some slices, whose rounds are those of sync::Machine, and follows the views
// that it gets with seat::Server. Messages come and go as values; the job (simulated_members.h) delivers them.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/overloaded.h"
#include "simulated_audit.h"
#include "sync/machine.h"
#include "sync/seat.h"

namespace dtrain::sync {

enum class SliceCall : uint8_t { kPush, kPull, kRefresh, kAssign };

// An array of weights, or a part of one.
struct SimulatedWeights {
  uint64_t version = 0;  // updates
  uint64_t value = 0;    // a hash of all that has made it
  bool operator==(const SimulatedWeights&) const = default;
};

struct SliceRequest {
  uint64_t from = 0;  // the incarnation of the worker
  uint32_t rank = 0;
  uint32_t slice = 0;
  SliceCall call = SliceCall::kPull;
  Step step = 0;  // of the gradient, or the one that the worker wants to begin
  uint64_t number = 0;
  uint64_t gradient = 0;          // of a push, if workers update
  SimulatedWeights weights = {};  // to assign
};

struct SliceAnswer {
  uint64_t to = 0;
  uint32_t slice = 0;
  uint64_t number = 0;   // of the request
  Step step = 0;         // that the worker may begin
  uint64_t applied = 0;  // gradients in the slice
  bool is_refused = false;
  // If workers update: the sum of the gradients of the last round, its step, and the weights that were assigned.
  uint64_t sum = 0;
  Step sum_of = 0;
  SimulatedWeights weights = {};
};

class SimulatedServer {
 public:
  struct SliceKind {
    uint32_t number = 0;
    Policy policy = {};
    bool is_statistic = false;
  };
  SimulatedServer(uint32_t rank, View start, const std::vector<SliceKind>& slices, simulated::Audit& audit)
      : rank_(rank), seats_(start), accepted_(start.workers.size()), audit_(audit) {
    for (const SliceKind& kind : slices) {
      slices_.push_back(Slice{.kind = kind, .machine = Machine(kind.policy)});
      slices_.back().begin();
    }
    audit_.server_has(0, rank_, 0, seen(start));
    audit_.server_follows(rank_);
    for (uint32_t rank = 0; rank < start.workers.size(); rank++) {
      if (start.workers[rank].is_live()) accepted_[rank] = start.workers[rank].incarnation;
      if (!start.workers[rank].is_live()) leave(rank);
    }
    answers_.clear();
  }

  // What the server answers to the request, perhaps to others, and later than now.
  std::vector<SliceAnswer> on(simulated::Ms now, const SliceRequest& request) {
    now_ = now;
    if (accepted_[request.rank] != request.from) {
      return {{.to = request.from, .slice = request.slice, .number = request.number, .is_refused = true}};
    }
    audit_.hears(now_, rank_, request.rank, request.from);
    Slice& slice = *std::ranges::find(slices_, request.slice, [](const Slice& one) { return one.kind.number; });
    if (request.call == SliceCall::kAssign) {
      slice.weights = request.weights;
      return {{.to = request.from, .slice = request.slice, .number = request.number}};
    }
    Step wanted = request.step;
    gradient_ = request.gradient;
    if (request.call == SliceCall::kPush) {
      feed(slice, Push{request.rank, request.step});
      wanted++;
    }
    slice.waiting[request.rank] = {request, wanted};
    audit_.waits(slice.kind.number, request.rank, wanted);
    if (request.call == SliceCall::kRefresh) {
      feed(slice, Refresh{request.rank, request.step});
    } else {
      feed(slice, Pull{request.rank, wanted});
    }
    return std::exchange(answers_, {});
  }

  std::vector<SliceAnswer> on(simulated::Ms now, const View& view) {
    now_ = now;
    std::vector<seat::ServerEffect> effects;
    seats_.on(view, effects);
    if (!effects.empty()) audit_.server_has(now_, rank_, view.number, seen(view));
    for (const seat::ServerEffect& effect : effects) {
      std::visit(Overloaded{[&](const seat::EndStreams& end) { accepted_[end.rank] = 0; },
                            [&](const seat::LeaveRounds& leaves) { leave(leaves.rank); },
                            [&](const seat::AdmitStreams& admit) { accepted_[admit.rank] = admit.incarnation; },
                            [&](const seat::JoinRounds& joins) { join(joins); }},
                 effect);
    }
    audit_.server_follows(rank_);
    return std::exchange(answers_, {});
  }

  // All workers stand still. Returns the step from which they continue.
  Step regroup(const std::vector<uint32_t>& group_of) {
    Step version = 0;
    for (Slice& slice : slices_) {
      if (slice.kind.is_statistic) continue;
      version = slice.machine.version();
      slice.kind.policy.group_of = group_of;
      slice.machine = Machine(slice.kind.policy, version);
      slice.begin();
    }
    return version;
  }

  static std::vector<simulated::SeatSeen> seen(const View& view) {
    std::vector<simulated::SeatSeen> seats;
    for (const Seat& seat : view.workers) {
      const bool is_empty = seat.state == Seat::State::kEmpty;
      seats.push_back({.process = is_empty ? 0 : seat.incarnation, .is_live = seat.is_live(), .begin = seat.begin});
    }
    return seats;
  }

 private:
  struct Waiting {
    SliceRequest request;
    Step wanted = 0;
  };
  struct Slice {
    SliceKind kind = {};
    Machine machine;
    std::map<uint32_t, Waiting> waiting = {};  // by rank
    std::vector<uint64_t> added = {};          // by group: gradients in its sum
    std::vector<uint64_t> kept = {};           // by group: gradients in the weights that it was given
    uint64_t applied = 0;
    uint64_t adding = 0, sum = 0;  // the gradients of the open round, and of the last one
    Step adding_of = 0, sum_of = 0;
    SimulatedWeights weights = {};  // as assigned
    void begin() {
      added.assign(kind.policy.group_of.size(), 0);
      kept.assign(kind.policy.group_of.size(), applied);
    }
  };

  void leave(uint32_t rank) {
    for (Slice& slice : slices_) {
      slice.waiting.erase(rank);
      feed(slice, Leave{rank});
    }
  }
  // A slice of statistics counts meetings, not steps.
  void join(const seat::JoinRounds& joins) {
    for (Slice& slice : slices_) {
      const Step clock = slice.machine.clock(joins.rank);
      feed(slice, Join{joins.rank, slice.kind.is_statistic ? clock : std::max<Step>(joins.begin, clock)});
    }
  }

  void feed(Slice& slice, const Event& event) {
    std::vector<Effect> effects;
    slice.machine.on(event, effects);
    const auto* push = std::get_if<Push>(&event);
    for (const Effect& effect : effects) {
      std::visit(Overloaded{[&](const Add& add) {
                              slice.added[add.group]++;
                              slice.adding += gradient_;
                              slice.adding_of = push->step;
                              audit_.adds(now_, slice.kind.number, rank_, add.worker, accepted_[add.worker],
                                          push->step);
                            },
                            [&](const Drop& drop) { audit_.discards(now_, slice.kind.number, drop.worker, drop.step); },
                            [&](const Late& late) { audit_.is_late(now_, slice.kind.number, late.worker, late.step); },
                            [&](const Apply& apply) {
                              slice.applied += std::exchange(slice.added[apply.group], 0);
                              slice.sum = std::exchange(slice.adding, 0);
                              slice.sum_of = slice.adding_of;
                              audit_.applies(now_, slice.kind.number, rank_, apply.group);
                            },
                            [&](const Keep& keep) { slice.kept[keep.group] = slice.applied; },
                            [&](const Answer& answer) { this->answer(slice, answer); }, [](const Park&) {},
                            [&](const Reject& reject) { refuse(slice, reject, event); }},
                 effect);
    }
  }
  void answer(Slice& slice, const Answer& effect) {
    const auto waiting = slice.waiting.find(effect.worker);
    if (waiting == slice.waiting.end() || waiting->second.wanted > effect.step) return;
    audit_.answers(now_, slice.kind.number, rank_, effect.worker, effect.step);
    const SliceRequest& asked = waiting->second.request;
    answers_.push_back({asked.from, slice.kind.number, asked.number, effect.step, slice.kept[effect.group], false,
                        slice.sum, slice.sum_of, slice.weights});
    slice.waiting.erase(waiting);
  }
  void refuse(Slice& slice, const Reject& reject, const Event& event) {
    const bool asks = std::holds_alternative<Pull>(event) || std::holds_alternative<Refresh>(event);
    const auto waiting = slice.waiting.find(reject.worker);
    if (!asks || waiting == slice.waiting.end()) return;
    const SliceRequest& asked = waiting->second.request;
    answers_.push_back({.to = asked.from, .slice = slice.kind.number, .number = asked.number, .is_refused = true});
    slice.waiting.erase(waiting);
  }

  uint32_t rank_;
  seat::Server seats_;
  std::vector<uint64_t> accepted_;  // by rank: the incarnation whose messages count; 0: none
  std::vector<Slice> slices_;
  simulated::Audit& audit_;
  simulated::Ms now_ = 0;
  uint64_t gradient_ = 0;  // of the last push
  std::vector<SliceAnswer> answers_;
};

}  // namespace dtrain::sync
