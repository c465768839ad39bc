// A simulated job whose servers take snapshots (simulated_members.h): a lost server is replaced, and all go back. The
// servers do what role/server/server.cc and kvstore do, and the workers what train/trainer.cc, train/server_return.cc
// and role/worker/worker.cc do, in the same order.
#pragma once

#include "simulated_members.h"

namespace dtrain::sync::membership {

// ---- The job.

inline void Simulation::draw_snapshots() {
  snapshot_every_ = static_cast<uint64_t>(2 + random_.below(5));
  servers_ = static_cast<uint32_t>(1 + random_.below(3));
  may_lose_scheduler_ = random_.below(3) == 0;
  may_lack_snapshots_ = random_.below(6) == 0;
  slow_one_in_ = random_.below(2) == 0 ? 8 : 60;
}

inline void Simulation::begin_return_audit(Millis absent) {
  std::vector<std::vector<uint32_t>> slices_of = slices_of_places();
  for (std::vector<uint32_t>& slices : slices_of) std::erase(slices, parameter_slices());
  returns_.emplace(kTimeout + 200 + absent, 1'500 + absent + kSleepMax + kStuckMax, std::move(slices_of));
}

inline void Simulation::begin_servers() {
  for (uint32_t rank = 0; rank < servers_; rank++) {
    Process& p = serving(rank);
    p.serves = rank;
    places_[rank].take_snapshots(snapshot_every_, disks_[rank].emplace_back(), false, *returns_);
    write_snapshots(p);
  }
  see_servers(seen_);
}

inline void Simulation::see_servers(const View& view) {
  seen_ = view;
  for (const ServerSeat& seat : view.servers) {
    if (seat.is_live && of(seat.incarnation).crashed) note_lost_server(of(seat.incarnation));
  }
}

// The table of nodes with which the scheduler answers a request to join.
inline void Simulation::link_to_servers(Process& p) {
  p.back.links.clear();
  for (const ServerSeat& seat : seen_.servers) p.back.links.push_back(seat.incarnation);
}

inline void Simulation::look_at_servers(bool is_running) {
  returns_->look(time_.now(), is_running);
  for (const Process& p : processes_) {
    if (!p.is_worker() || p.back.links.empty()) continue;
    bool waits = false;
    for (uint32_t slice = 0; slice < p.open.size(); slice++) {
      const ServerSeat& seat = seen_.servers[place_of(slice)];
      const bool is_to_lost = !seat.is_live || seat.incarnation != p.back.links[place_of(slice)];
      waits = waits || (p.open[slice].request.number > 0 && is_to_lost);
    }
    returns_->waits_for_lost(time_.now(), p.incarnation(), waits && is_running && !p.is_over() && !p.is_lost);
  }
}

// If a server has the third snapshot, all have the first one.
inline void Simulation::look_at_disks() {
  const auto has_three = [this](const std::deque<SimulatedSnapshots::Disk>& disks) {
    return !disks.empty() && !disks.back().empty() && disks.back().rbegin()->first >= 2 * snapshot_every_;
  };
  if (std::ranges::none_of(disks_, has_three)) may_lack_snapshots_ = true;
}

// All workers go back when this barrier ends.
inline void Simulation::look_at_return(const ReleaseBarrier& e) {
  note("all went back after a server was lost");
  if (*e.restored == 0) note("all went back to the initial weights");
  restores_at_[e.seq] = seen_.restores;
  returns_->workers_go_back(time_.now(), seen_.restores, *e.restored);
  audit_->undoes(*e.restored);
  std::erase_if(ended_at_, [&](const auto& entry) { return entry.second > *e.restored; });
  if (border_at_[e.seq] > 0) note("a worker was at a border when all went back");
  if (where_ == Where::kHolding) note("all went back while holding");
  if (where_ == Where::kDraining || where_ == Where::kMeeting) note("all went back on the way to a border");
  if (where_ == Where::kStopping) note("all went back while stopping");
}

// A job whose workers have all made all steps has the same weights as one in which no server was lost.
inline void Simulation::compare_with_undisturbed(const Process& p) {
  if (has_lost_worker_ || has_changed_ || p.is_lost) return;
  const uint64_t weights = mix64(hash_of(p.weights) ^ p.back.statistics);
  if (weights != undisturbed(p.at.epoch, parameter_slices())) {
    wrong_ = fmt::format("{} ms: epoch {} ended with other bits than without a loss", time_.now(), p.at.epoch);
  }
  if (!restores_at_.empty()) note("an epoch ended with the bits of one without a loss");
}

// ---- What happens to servers.

inline SimulatedProcess& Simulation::any_server() {
  return any_process(0);
}

inline void Simulation::fault_with_servers() {
  const int64_t kind = random_.below(12);
  if (journal_ && kind < 4) {
    if (kind == 0) note("two at once: server and scheduler");
    if (kind < 2) crash(any_server());
    return kill_scheduler();
  }
  if (kind < 5) return crash(any_server());
  if (kind < 7) return sleep(any_server(), static_cast<Millis>(200 + random_.below(kSleepMax - 200)));
  if (kind == 7) return lose_two(any_server(), any_server());
  if (kind < 10) return lose_two(any_server(), any_process(random_.below(2) == 0 ? 3 : 1));
  kind == 10 ? disturb(any_process(3)) : crash(any_process(1 + random_.below(4)));
}

inline void Simulation::lose_two(Process& one, Process& other) {
  if (can_crash(one) && can_crash(other) && &one != &other) note(pair_of_roles(one, other));
  crash(one);
  after(random_.below(2) * random_.below(3'000), [this, &other] { crash(other); });
}

// The server dies, or has died before it took its place.
inline void Simulation::note_lost_server(const Process& p) {
  if (p.rank >= seen_.servers.size() || p.is_lost || seen_.servers[p.rank].incarnation != p.incarnation()) return;
  audit_->server_is_gone(p.rank);
  returns_->server_is_gone(time_.now(), p.rank);
}

inline void Simulation::note_killed_here() {
  torn_at_.erase(released_);  // the workers that come again to the open barrier say it again
  const bool is_missing = std::ranges::any_of(seen_.servers, [](const ServerSeat& seat) { return !seat.is_live; });
  if (is_missing) note("the scheduler was killed while a server was missing");
  const bool have_all_heard =
      restores_at_.empty() ? seen_.restores == 0 : restores_at_.rbegin()->second == seen_.restores;
  if (!is_missing && !have_all_heard) note("the scheduler was killed while servers went back");
}

// Its launcher starts another one, or it does not.
inline void Simulation::continue_without_server(Process& p) {
  note("a job continued without a lost server");
  if (std::ranges::count_if(seen_.servers, [](const ServerSeat& seat) { return !seat.is_live; }) > 0) {
    note("a server was lost while another one was missing");
  }
  if (disks_[p.rank].back().empty()) may_lack_snapshots_ = true;
  audit_->server_is_gone(p.rank);
  returns_->server_is_gone(time_.now(), p.rank);
  returns_->server_is_lost(p.rank);
  if (p.serves) places_[*p.serves].count_as_lost();
  const int64_t tries = random_.below(10) == 0 ? 0 : 3;
  for (int64_t i = 0; i < tries; i++) {
    after(i * 2'500 + 100 + random_.below(1'500), [this, rank = p.rank] {
      if (!seen_.servers[rank].is_live) start_server(rank);
    });
  }
}

inline void Simulation::start_server(uint32_t rank) {
  const auto id = static_cast<uint32_t>(processes_.size());
  processes_.push_back({.id = id, .works = false, .rank = rank, .takes_part = false, .has_joined = true});
  Process& p = processes_.back();
  ask_to_join(p, Join{.incarnation = p.incarnation(), .role = Role::kServer, .want_rank = rank, .job_text = ""});
  if (random_.below(12) == 0) after(random_.below(600), [this, &p] { crash(p); });
}

inline void Simulation::refuse_server(Process& p) {
  note("a server was turned away");
  p.ended = true;
}

inline void Simulation::admit_server(Process& p, uint64_t restores) {
  if (p.crashed) return;
  p.takes_part = true;
  const View start{.workers = {seats_, Seat{.incarnation = 0, .state = Seat::State::kEmpty}}, .restores = restores};
  p.serves = places_.size();
  places_.emplace_back(p.rank, start, slices_on(p.rank), *audit_);
  std::deque<SimulatedSnapshots::Disk>& disks = disks_[p.rank];
  disks.push_back(SimulatedSnapshots::Disk(disks.back()));
  places_.back().take_snapshots(snapshot_every_, disks.back(), true, *returns_);
  later(p, delay(), [this, &p] { become_member(p); });
}

// ---- What servers do.

inline void Simulation::follow_view(Process& p, const View& view) {
  const ServerSeat& seat = view.servers[p.rank];
  if (!seat.is_live || seat.incarnation != p.incarnation()) {
    note("a server learned that it counts as lost");
    return fail(p, Code::kPeerLost);
  }
  if (!p.serves) return;
  SimulatedServer& server = places_[*p.serves];
  answer(p.rank, server.on(time_.now(), view));
  p.carried_out_ms = std::max(p.carried_out_ms, time_.now());
  if (const auto restored = server.take_restored()) carry_out_restore(p, *restored);
  later(p, static_cast<int64_t>(p.carried_out_ms - time_.now()), [this, &p, number = view.number] {
    if (p.is_over()) return;
    p.viewed = std::max(p.viewed, number);
    report(p, Viewed{p.incarnation(), number});
  });
}

// It deletes the snapshots that nobody needs anymore before it says that it has carried out the view.
inline void Simulation::carry_out_restore(Process& p, const SimulatedServer::Restored& restored) {
  if (!restored.had_it) {
    wrong_ = fmt::format("{} ms: server {} has no snapshot of version {}", time_.now(), p.rank, restored.version);
    return fail(p, Code::kNotFound);
  }
  p.carried_out_ms += static_cast<Millis>(random_.below(100));
  later(p, static_cast<int64_t>(p.carried_out_ms - time_.now()), [this, &p, version = restored.version] {
    if (p.is_over()) return;
    places_[*p.serves].snapshots().delete_later(version);
    report_snapshots(p);
  });
  const int64_t fate = random_.below(20);
  if (fate < 2) after(random_.below(200), [this, &p] { crash(p); });
  if (fate < 2) note("a server died soon after it went back");
  if (fate == 2) after(random_.below(200), [this] { crash(any_server()); });
}

// One file is written at a time.
inline void Simulation::write_snapshots(Process& p) {
  SimulatedSnapshots& snapshots = places_[*p.serves].snapshots();
  if (p.is_over() || !snapshots.begin_write()) return;
  const int64_t takes = random_.below(8) == 0 ? random_.below(900) : random_.below(40);
  const bool is_written = !may_lack_snapshots_ || random_.below(12) > 0;
  later(p, takes, [this, &p, &snapshots, is_written] {
    if (p.is_over()) return;
    if (!is_written) note("a snapshot could not be written");
    snapshots.end_write(is_written);
    report_snapshots(p);
    answer(p.rank, places_[*p.serves].release_answers());
    write_snapshots(p);
  });
}

// Reports of a process reach the scheduler in their order, and sometimes late.
inline void Simulation::report(Process& p, Event event) {
  if (p.crashed || !p.stream) return;
  const int64_t takes = random_.below(slow_one_in_) == 0 ? random_.below(kSlowMax) : delay();
  p.report_ms = std::max(p.report_ms, time_.now() + static_cast<Millis>(takes));
  time_.at(p.report_ms, [this, event = std::move(event)] { send(event); });
}
inline void Simulation::report_snapshots(Process& p) {
  report(p, Snapshots{p.incarnation(), places_[*p.serves].snapshots().durable()});
}
inline void Simulation::report_again(Process& p) {
  if (!p.serves) return;
  report_snapshots(p);
  if (p.viewed > 0) report(p, Viewed{p.incarnation(), p.viewed});
}

// ---- What workers do in their steps.

inline void Simulation::keep_point(Process& p) {
  if (!p.is_lost) {
    returns_->continues(time_.now(), p.next, p.weights);
    audit_->has_weights(time_.now(), p.back.restores, p.next, hash_of(p.weights));
  }
  p.at.next = p.next;
  if (p.next % snapshot_every_ == 0) p.back.keep(p.next, p.at);
}
inline void Simulation::count_statistics(Process& p) {
  p.back.statistics = mix64(p.back.statistics ^ gradient_of(p.batch, hash_of(p.weights)));
}
inline void Simulation::add_content(Process& p, SliceRequest& request, SliceWait wait) const {
  if (wait == SliceWait::kStep) request.gradient = mix64(gradient_of(p.batch, hash_of(p.weights)) + request.slice);
  if (wait == SliceWait::kStatistics) request.gradient = p.back.statistics;
  if (wait != SliceWait::kGiveStatistics) return;
  request.call = SliceCall::kAssign;
  request.weights.value = p.back.point_at(p.back.version)->statistics;
}
inline void Simulation::take_weights(Process& p) {
  for (uint32_t slice = 0; slice < parameter_slices(); slice++) p.weights[slice] = p.open[slice].answer.weights;
}
// Those of all workers.
inline void Simulation::take_statistics(Process& p) {
  p.back.statistics = p.open[parameter_slices()].answer.weights.value;
}

// A request that reaches no server, or is answered by none, stays open.
inline void Simulation::send_to_link(Process& p, SliceRequest request, uint32_t place) {
  Process& server = of(p.back.links[place]);
  if (!server.serves || p.back.is_broken) return;
  request.stream = places_[*server.serves].stream(p.rank);
  request.restores = p.back.restores;
  for (int64_t copies = doubles() ? 2 : 1; copies > 0; copies--) {
    if (random_.below(10 * slow_one_in_) == 0) {
      p.stuck_ms[place] = time_.now() + static_cast<Millis>(random_.below(kStuckMax));
    }
    Millis& arrives = p.stream_ms[place];
    arrives = std::max({arrives, time_.now() + static_cast<Millis>(delay()), p.stuck_ms[place]});
    time_.at(arrives, [this, &server, request] {
      when_awake(server, [this, &server, request] {
        if (server.is_over()) return;
        answer(server.rank, places_[*server.serves].on(time_.now(), request));
        write_snapshots(server);
      });
    });
  }
}
inline void Simulation::send_again(Process& p, const SliceAnswer& answer) {
  note("a request was sent again on another stream");
  later(p, 50 + random_.below(100), [this, &p, answer] {
    if (!p.back.is_broken) send_request(p, answer.slice, answer.number);
  });
}

// ---- What workers do when a server is lost.

inline void Simulation::watch_servers(Process& p, const View& view) {
  if (view.number <= p.back.view) return;
  p.back.view = view.number;
  if (view.must_restore) break_up(p);
  for (uint32_t rank = 0; rank < view.servers.size(); rank++) {
    const ServerSeat& seat = view.servers[rank];
    if (seat.is_live) p.back.links[rank] = seat.incarnation;
  }
  if (!view.must_restore) p.back.lacks_server = false;
  if (p.back.on_view && view.number >= p.back.awaited_view) std::exchange(p.back.on_view, nullptr)();
}
inline void Simulation::break_up(Process& p) {
  p.back.is_broken = p.back.lacks_server = true;
  const bool is_waiting = std::ranges::any_of(p.open, [](const OpenRequest& one) { return one.request.number > 0; });
  if (is_waiting && p.waits != SliceWait::kNothing) give_up(p);
}
inline void Simulation::forget_requests(Process& p) {
  for (OpenRequest& open : p.open) open.request = {};
  if (!p.back.lacks_server) p.back.is_broken = false;
}
// What it waits for cannot be completed.
inline void Simulation::give_up(Process& p) {
  later(p, random_.below(40), [this, &p, wait = std::exchange(p.waits, SliceWait::kNothing)] {
    if (p.is_over()) return;
    // If another server was lost meanwhile, all notice it when they fetch the weights.
    if (wait == SliceWait::kGiveStatistics) return enter_barrier(p, kPosition);
    if (wait == SliceWait::kFirstWeights && !p.back.is_returning) {
      note("a worker could not begin, because a server was lost");
    }
    forget_requests(p);
    if (wait == SliceWait::kStatistics) note("a server was lost while the statistics were shared");
    if (wait == SliceWait::kFirstWeights && p.back.is_returning) note("a server was lost while workers went back");
    const bool shares = wait == SliceWait::kStatistics;
    const bool returns = wait == SliceWait::kFirstWeights && p.back.is_returning;
    meet_others(p, shares ? ReturnStage::kHasShared : returns ? ReturnStage::kHasWeights : ReturnStage::kTorn, true);
  });
}
inline void Simulation::meet_others(Process& p, ReturnStage stage, bool is_torn) {
  if (p.is_over()) return;
  p.back.stage = stage;
  p.in_barrier = BarrierEnter{.incarnation = p.incarnation(),
                              .name = kMeeting,
                              .seq = p.barriers,
                              .content = "1 numbers",
                              .border = p.border,
                              .is_torn = is_torn,
                              .kept = p.back.newest_version(p.rank)};
  ask_barrier(p);
}

inline void Simulation::have_shared(Process& p) {
  take_statistics(p);
  meet_others(p, ReturnStage::kHasShared, false);
}

// Returns whether nothing else follows from the barrier.
inline bool Simulation::agree_with_servers(Process& p, const ReleaseBarrier& release) {
  const bool is_torn = torn_at_.contains(release.seq) || release.restored;
  switch (std::exchange(p.back.stage, ReturnStage::kNone)) {
    case ReturnStage::kTorn: follow_servers(p, release); return true;
    case ReturnStage::kHasShared: is_torn ? follow_servers(p, release) : end_meeting(p); return true;
    case ReturnStage::kHasWeights:
      if (is_torn) note("workers went back once more");
      is_torn ? follow_servers(p, release) : continue_from_snapshot(p);
      return true;
    case ReturnStage::kNone: break;
  }
  if (!release.restored) return false;
  note("a worker went back that had completed its step");
  follow_servers(p, release);
  return true;
}
inline void Simulation::follow_servers(Process& p, const ReleaseBarrier& release) {
  if (!release.restored) {
    wrong_ = fmt::format("{} ms: workers met because of a lost server, but none was replaced", time_.now());
    return fail(p, Code::kInternal);
  }
  p.back.version = *release.restored;
  p.back.restores = restores_at_[release.seq];
  p.back.is_returning = true;
  p.stopping = false;
  if (p.back.view >= release.view) return agree_on_position(p);
  p.back.awaited_view = release.view;
  p.back.on_view = [this, &p] { agree_on_position(p); };
}
inline void Simulation::agree_on_position(Process& p) {
  if (p.is_over()) return;
  forget_requests(p);
  pass(p, p.border);
  p.back.forget_after(p.back.version);
  p.newcomers = p.back.newcomers_since(p.back.version);
  const ReturnPoint* own = p.back.point_at(p.back.version);
  if (own == nullptr && !is_new(p, p.rank)) {
    wrong_ = fmt::format("{} ms: worker {} has kept nothing of version {}", time_.now(), p.rank, p.back.version);
    return fail(p, Code::kPeerLost);
  }
  if (own == nullptr) note("a worker went back to a step before its first one");
  if (own != nullptr) p.at = adapted(own->at, p.at.members);
  p.next = p.back.version;
  enter_position(p);
}
// As adapt_to_workers() in train/other_workers.h.
inline SimulatedPosition Simulation::adapted(SimulatedPosition at, const std::vector<uint32_t>& members) const {
  const auto before = static_cast<int64_t>(at.members.size()), now = static_cast<int64_t>(members.size());
  if (before != now) {
    add_read(at, before);
    at.steps = divide_up(data::count_left(at.rest), now * kBatch);
    at.made = 0;
  }
  at.members = members;
  return at;
}
inline void Simulation::go_to_snapshot(Process& p, const SimulatedPosition& position) {
  p.at = position;
  p.at.division = p.barriers;
  p.next = p.back.version;
  p.newcomers.clear();
  take_part(p);
  ask(p, SliceWait::kFirstWeights);
}
inline void Simulation::have_snapshot(Process& p, Step open) {
  if (open != p.back.version) {
    wrong_ = fmt::format("{} ms: worker {} went back to step {}, but the slices are at {}", time_.now(), p.rank,
                         p.back.version, open);
  }
  take_weights(p);
  p.meetings = p.open[parameter_slices()].answer.step;
  meet_others(p, ReturnStage::kHasWeights, false);
}
// All have the weights.
inline void Simulation::continue_from_snapshot(Process& p) {
  if (std::exchange(p.back.is_returning, false)) {
    if (const ReturnPoint* own = p.back.point_at(p.back.version)) p.back.statistics = own->statistics;
    p.back.settle(p.at);
    p.begun = p.next;
    p.back.has_returned = true;
    p.in_barrier = BarrierEnter{p.incarnation(), kInitial, p.barriers, "0 numbers", 0, {}, 0, true};
    return ask_barrier(p);
  }
  p.stops ? ask(p, SliceWait::kStatistics) : try_begin(p);
}

}  // namespace dtrain::sync::membership
