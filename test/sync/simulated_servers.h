// The servers of a simulated job: each has some slices, whose rounds are those of sync::Machine, and follows the views
// that it gets with seat::Server. Messages come and go as values; the job (simulated_members.h) delivers them.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "base/overloaded.h"
#include "base/random.h"
#include "simulated_audit.h"
#include "simulated_return_audit.h"
#include "simulated_snapshots.h"
#include "sync/machine.h"
#include "sync/seat.h"

namespace dtrain::sync {

enum class SliceCall : uint8_t { kPush, kPull, kRefresh, kAssign };

struct SliceRequest {
  uint64_t from = 0;  // the incarnation of the worker
  uint32_t rank = 0;
  uint32_t slice = 0;
  SliceCall call = SliceCall::kPull;
  Step step = 0;  // of the gradient, or the one that the worker wants to begin
  uint64_t number = 0;
  uint64_t gradient = 0;          // of a push, if workers update or servers take snapshots
  SimulatedWeights weights = {};  // to assign
  uint64_t stream = 0;            // number of the stream to the server, see SimulatedServer::stream()
  uint64_t restores = 0;          // how often the servers had gone back when the worker went back last, or began
};

struct SliceAnswer {
  uint64_t to = 0;
  uint32_t slice = 0;
  uint64_t number = 0;   // of the request
  Step step = 0;         // that the worker may begin
  uint64_t applied = 0;  // gradients in the slice
  bool is_refused = false;
  bool is_cut = false;  // no answer: the server has ended the stream
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
      : rank_(rank),
        seats_(start),
        restores_(start.restores),
        accepted_(start.workers.size()),
        streams_(start.workers.size()),
        audit_(audit) {
    for (const SliceKind& kind : slices) {
      slices_.push_back(Slice{.kind = kind, .machine = Machine(kind.policy)});
      slices_.back().begin();
    }
    audit_.server_begins(rank_);
    audit_.server_has(0, rank_, 0, seen(start));
    audit_.server_follows(rank_);
    for (uint32_t rank = 0; rank < start.workers.size(); rank++) {
      if (start.workers[rank].is_live()) accepted_[rank] = start.workers[rank].incarnation;
      if (!start.workers[rank].is_live()) leave(rank);
    }
    answers_.clear();
  }
  // The server takes a snapshot of each version that this number divides. `is_new`: whether it takes the place of a
  // lost one, and has no values yet.
  void take_snapshots(uint64_t every, SimulatedSnapshots::Disk& disk, bool is_new, simulated::ReturnAudit& returns) {
    const auto parameters = std::ranges::count_if(slices_, [](const Slice& one) { return !one.kind.is_statistic; });
    snapshots_.emplace(every, static_cast<size_t>(parameters), disk);
    returns_ = &returns;
    returns.server_begins(rank_, restores_);
    for (Slice& slice : slices_) {
      slice.has_values = !is_new;
      if (slice.has_values && !slice.kind.is_statistic) snapshots_->take(slice.kind.number, slice.weights);
    }
  }
  [[nodiscard]] SimulatedSnapshots& snapshots() { return *snapshots_; }
  // The number of the stream of this rank. Messages of the streams before do not arrive.
  [[nodiscard]] uint64_t stream(uint32_t rank) const { return streams_[rank]; }
  // From now on it counts as lost, and nobody looks at what it does.
  void count_as_lost() { is_lost_ = true; }
  // The answers that waited for a snapshot and may go out now.
  std::vector<SliceAnswer> release_answers() {
    for (Slice& slice : slices_) {
      while (!slice.held.empty() && slice.held.front().weights.version < snapshots_->limit()) {
        answers_.push_back(slice.held.front());
        slice.held.pop_front();
      }
    }
    return std::exchange(answers_, {});
  }
  // The version to which the server has gone back since the last call, and whether it had this snapshot.
  struct Restored {
    uint64_t version = 0;
    bool had_it = false;
  };
  std::optional<Restored> take_restored() { return std::exchange(restored_, std::nullopt); }

  // What the server answers to the request, perhaps to others, and later than now.
  std::vector<SliceAnswer> on(simulated::Ms now, const SliceRequest& request) {
    now_ = now;
    const bool is_known = accepted_[request.rank] == request.from;
    const bool is_cut =
        snapshots_ && (awaited_.contains(request.rank) || (is_known && request.stream != streams_[request.rank]));
    if (is_cut || !is_known) {
      return {{.to = request.from,
               .slice = request.slice,
               .number = request.number,
               .is_refused = !is_cut,
               .is_cut = is_cut}};
    }
    if (!is_lost_) audit_.hears(now_, rank_, request.rank, request.from);
    Slice& slice = *std::ranges::find(slices_, request.slice, [](const Slice& one) { return one.kind.number; });
    if (returns_ != nullptr && !is_lost_) returns_->hears(now_, rank_, request.restores, slice.kind.is_statistic);
    if (request.call == SliceCall::kAssign) {
      slice.weights = request.weights;
      if (snapshots_ && slice.kind.is_statistic) begin_statistic(slice, request.step);
      answers_.push_back({.to = request.from, .slice = request.slice, .number = request.number});
    } else if (slice.has_values) {
      take(slice, request);
    } else {
      slice.early.push_back(request);
    }
    return std::exchange(answers_, {});
  }

  std::vector<SliceAnswer> on(simulated::Ms now, const View& view) {
    now_ = now;
    std::vector<seat::ServerEffect> effects;
    seats_.on(view, effects);
    restores_ = std::max(restores_, view.restores);
    if (!effects.empty() && !is_lost_) audit_.server_has(now_, rank_, view.number, seen(view));
    for (const seat::ServerEffect& effect : effects) {
      std::visit(Overloaded{[&](const seat::EndStreams& end) { end_streams(end); },
                            [&](const seat::LeaveRounds& leaves) { leave(leaves.rank); },
                            [&](const seat::AdmitStreams& admit) { this->admit(admit); },
                            [&](const seat::JoinRounds& joins) { join(joins); },
                            [&](const seat::Restore& restore) { go_back(restore.version); }},
                 effect);
    }
    if (!is_lost_) audit_.server_follows(rank_);
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
    SimulatedWeights weights = {};  // as assigned, and updated if the server takes snapshots
    bool has_values = true;
    std::vector<SliceRequest> early = {};  // requests that came before the values
    std::deque<SliceAnswer> held = {};     // answers that wait for a snapshot
    void begin() {
      added.assign(kind.policy.group_of.size(), 0);
      kept.assign(kind.policy.group_of.size(), applied);
    }
  };

  void take(Slice& slice, const SliceRequest& request) {
    Step wanted = request.step;
    gradient_ = request.gradient;
    if (request.call == SliceCall::kPush) {
      feed(slice, Push{request.rank, request.step});
      wanted++;
    }
    slice.waiting[request.rank] = {request, wanted};
    if (!is_lost_) audit_.waits(slice.kind.number, request.rank, wanted);
    if (request.call == SliceCall::kRefresh) {
      feed(slice, Refresh{request.rank, request.step});
    } else {
      feed(slice, Pull{request.rank, wanted});
    }
  }
  void end_streams(const seat::EndStreams& end) {
    accepted_[end.rank] = 0;
    streams_[end.rank]++;
    if (end.returns) awaited_.insert(end.rank);
  }
  void admit(const seat::AdmitStreams& admit) {
    accepted_[admit.rank] = admit.incarnation;
    awaited_.erase(admit.rank);
  }
  void leave(uint32_t rank) {
    absent_.insert(rank);
    for (Slice& slice : slices_) {
      slice.waiting.erase(rank);
      if (slice.has_values) feed(slice, Leave{rank});
    }
  }
  // A slice of statistics counts meetings, not steps.
  void join(const seat::JoinRounds& joins) {
    absent_.erase(joins.rank);
    for (Slice& slice : slices_) {
      if (!slice.has_values) continue;
      const Step clock = slice.machine.clock(joins.rank);
      feed(slice, Join{joins.rank, slice.kind.is_statistic ? clock : std::max<Step>(joins.begin, clock)});
    }
  }
  // The rounds of the slice begin with this one, without any gradient.
  void begin_rounds(Slice& slice, Step first) {
    slice.machine = Machine(slice.kind.policy, first);
    slice.adding = 0;
    slice.waiting.clear();
    slice.held.clear();
    slice.begin();
    for (const uint32_t rank : absent_) feed(slice, Leave{rank});
  }
  // All streams of workers have ended. Slices of statistics have no snapshots, and keep what they have.
  void go_back(uint64_t version) {
    const SimulatedSnapshots::Content* content = snapshots_->at(version);
    restored_ = Restored{version, content != nullptr};
    if (content == nullptr) return;
    for (Slice& slice : slices_) {
      slice.early.clear();
      if (!slice.kind.is_statistic) slice.weights = content->at(slice.kind.number);
      slice.has_values = slice.has_values || !slice.kind.is_statistic;
      if (slice.has_values) begin_rounds(slice, slice.kind.is_statistic ? slice.machine.version() : version);
    }
    snapshots_->go_back(version);
    if (is_lost_) return;
    audit_.server_goes_back(rank_, version);
    returns_->server_goes_back(now_, rank_, restores_, version, *content);
  }
  void begin_statistic(Slice& slice, Step first) {
    std::vector<SliceRequest> requests = std::exchange(slice.early, {});
    for (const auto& [rank, waiting] : slice.waiting) requests.push_back(waiting.request);
    slice.has_values = true;
    begin_rounds(slice, first);
    if (!is_lost_) audit_.statistic_begins(slice.kind.number, first);
    for (const SliceRequest& request : requests) take(slice, request);
  }
  // With snapshots, the server has the weights. The sum of the statistics of all workers becomes their new value.
  void update(Slice& slice) {
    if (slice.kind.is_statistic) {
      slice.weights.value = mix64(slice.sum);
      return;
    }
    slice.weights = {slice.weights.version + 1, mix64(slice.weights.value ^ mix64(slice.sum))};
    snapshots_->take(slice.kind.number, slice.weights);
    returns_->updates(now_, rank_, restores_, slice.kind.number, slice.weights);
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
                              if (returns_ != nullptr) returns_->adds(rank_, restores_, slice.kind.number);
                              if (is_lost_) return;
                              audit_.adds(now_, slice.kind.number, rank_, add.worker, accepted_[add.worker],
                                          push->step);
                            },
                            [&](const Drop& drop) {
                              if (!is_lost_) audit_.discards(now_, slice.kind.number, drop.worker, drop.step);
                            },
                            [&](const Late& late) { audit_.is_late(now_, slice.kind.number, late.worker, late.step); },
                            [&](const Apply& apply) {
                              slice.applied += std::exchange(slice.added[apply.group], 0);
                              slice.sum = std::exchange(slice.adding, 0);
                              slice.sum_of = slice.adding_of;
                              if (!is_lost_) audit_.applies(now_, slice.kind.number, rank_, apply.group);
                              if (snapshots_) update(slice);
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
    if (!is_lost_) audit_.answers(now_, slice.kind.number, rank_, effect.worker, effect.step);
    const SliceRequest& asked = waiting->second.request;
    SliceAnswer answer{.to = asked.from,
                       .slice = slice.kind.number,
                       .number = asked.number,
                       .step = effect.step,
                       .applied = slice.kept[effect.group],
                       .sum = slice.sum,
                       .sum_of = slice.sum_of,
                       .weights = slice.weights};
    slice.waiting.erase(waiting);
    const bool waits =
        snapshots_ && !slice.kind.is_statistic && (!slice.held.empty() || slice.weights.version >= snapshots_->limit());
    waits ? slice.held.push_back(answer) : answers_.push_back(answer);
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
  uint64_t restores_;               // as in View
  std::vector<uint64_t> accepted_;  // by rank: the incarnation whose messages count; 0: none
  std::vector<uint64_t> streams_;   // by rank: how many have ended
  std::set<uint32_t> awaited_;      // the ranks whose streams are ended for now
  std::set<uint32_t> absent_;       // the ranks that take part in no round
  std::optional<SimulatedSnapshots> snapshots_;
  std::optional<Restored> restored_;
  bool is_lost_ = false;
  std::vector<Slice> slices_;
  simulated::Audit& audit_;
  simulated::ReturnAudit* returns_ = nullptr;
  simulated::Ms now_ = 0;
  uint64_t gradient_ = 0;  // of the last push
  std::vector<SliceAnswer> answers_;
};

}  // namespace dtrain::sync
