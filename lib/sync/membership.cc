#include "sync/membership.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace dtrain::sync::membership {

std::string_view to_text(Role role) {
  return role == Role::kWorker ? "worker" : "server";
}

std::string to_text(const Member& member) {
  return fmt::format("{} {}", to_text(member.role), member.rank);
}

std::string to_text(const std::vector<Member>& members) {
  std::string text;
  for (const Member& member : members) text += (text.empty() ? "" : ", ") + to_text(member);
  return text;
}

Machine::Machine(Settings settings, Millis now_ms)
    : settings_(std::move(settings)),
      now_ms_(now_ms),
      phase_since_ms_(now_ms),
      log_ms_(now_ms + settings_.log_missing_first_ms) {}

void Machine::on(Millis now_ms, const Event& event, std::vector<Effect>& out) {
  now_ms_ = std::max(now_ms_, now_ms);
  if (phase_ == Phase::kEnded) return;
  std::visit([&](const auto& e) { handle(e, out); }, event);
}

std::optional<Member> Machine::member(Incarnation incarnation) const {
  const auto it = processes_.find(incarnation);
  if (it == processes_.end() || !started()) return std::nullopt;
  if (it->second.has_ended && it->second.is_lost) return std::nullopt;
  return member_of(it->second);
}

Machine::Process* Machine::known(Incarnation incarnation) {
  const auto it = processes_.find(incarnation);
  return it == processes_.end() ? nullptr : &it->second;
}

Machine::Process* Machine::live(const Member& member) {
  if (!started()) return nullptr;
  const auto found = std::ranges::find_if(
      processes_, [&](const auto& entry) { return !entry.second.has_ended && member_of(entry.second) == member; });
  return found == processes_.end() ? nullptr : &found->second;
}

uint32_t Machine::expected(Role role) const {
  return role == Role::kWorker ? settings_.workers : settings_.servers;
}

uint32_t Machine::joined(Role role) const {
  return static_cast<uint32_t>(
      std::ranges::count_if(processes_, [&](const auto& entry) { return entry.second.join.role == role; }));
}

std::set<uint32_t> Machine::wanted_ranks(Role role) const {
  std::set<uint32_t> ranks;
  for (const auto& [incarnation, process] : processes_) {
    if (process.join.role == role && process.join.want_rank) ranks.insert(*process.join.want_rank);
  }
  return ranks;
}

// ---- Which processes are alive.

void Machine::handle(const StreamOpened& event, Out& out) {
  Process* process = known(event.incarnation);
  if (process == nullptr || !started() || (process->has_ended && phase_ != Phase::kFailing)) {
    return turn_away(event.incarnation, out);
  }
  process->heard_ms = now_ms_;
  process->closed_ms.reset();
  // Notices sent while no stream was open are lost, so repeat the current one.
  if (view_.number > 0) out.push_back(Tell{event.incarnation, view_});
  if (process->must_leave) out.push_back(Tell{event.incarnation, LeaveJob{is_group()}});
  if (auto notice = notice_for(*process)) out.push_back(Tell{event.incarnation, std::move(*notice)});
}

// A worker that has lost its seat learns it from the view, and may take another one. Any other process that has ended,
// or was never part of the job, has no business here.
void Machine::turn_away(Incarnation incarnation, Out& out) const {
  const auto found = processes_.find(incarnation);
  if (found != processes_.end() && found->second.is_lost) {
    out.push_back(Tell{incarnation, view_});
    return;
  }
  out.push_back(
      Reject{incarnation, Code::kDenied, "this process does not belong to the job, or no longer belongs to it"});
}

void Machine::handle(const StreamClosed& event, Out& out) {
  Process* process = known(event.incarnation);
  if (process == nullptr || process->has_ended) return;
  process->closed_ms = now_ms_;
  settle(out);
}

void Machine::handle(const Heartbeat& event, Out&) {
  if (Process* process = known(event.incarnation)) process->heard_ms = now_ms_;
}

// A lost process is told like the others, because it may still be running on a host that the launcher cannot reach.
void Machine::lose(Process& process, const Loss& loss, Out& out) {
  if (process.standing != Standing::kTakesPart) return drop(process, loss.how, out);
  const Member member = member_of(process);
  const bool continues = continues_without(process);
  out.push_back(DeclareLost{member, now_ms_ - process.heard_ms, loss.how, continues});
  if (continues && process.join.role == Role::kServer) {
    lose_server(process, loss.how, out);
  } else if (continues) {
    publish_without(process, out);
    if (settings_.on_worker_loss == OnWorkerLoss::kWait) {
      vacant_[process.rank] = {now_ms_, loss.how};
      must_meet_ = true;
    }
  } else if (phase_ != Phase::kFinishing) {  // after all workers are done, a lost process is no failure
    fail_job(Code::kPeerLost, fmt::format("{} {}: {}", to_text(member), loss.verb, loss.how), out);
  }
  process.is_lost = true;
  note_lost_seat(process);
  process.has_ended = process.has_ended || continues || !loss.is_reachable;
  end_leave(process, out);
  settle(out);
}

void Machine::note_lost_seat(Process& process) const {
  std::erase_if(process.seats_lost_ms, [&](Millis lost) { return now_ms_ - lost >= settings_.lost_seats_ms; });
  process.seats_lost_ms.push_back(now_ms_);
}

// Workers that were asked to leave count as if they had left.
bool Machine::continues_without(const Process& process) const {
  if (process.join.role == Role::kServer) return settings_.on_server_loss != OnServerLoss::kFail && runs() && trains_;
  if (settings_.on_worker_loss == OnWorkerLoss::kFail || !runs() || !trains_) return false;
  const auto stays = [&](const Process& other) { return !other.must_leave && &other != &process; };
  return live(Role::kWorker, stays).size() >= settings_.min_workers;
}

// A process whose join was not answered yet gets the view when it opens its stream.
void Machine::publish(Out& out) {
  view_.number++;
  for (const auto& [incarnation, process] : processes_) {
    if (!process.has_ended && process.standing != Standing::kKnown) out.push_back(Tell{incarnation, view_});
  }
}

void Machine::publish_without(const Process& process, Out& out) {
  view_.workers[process.rank].state = Seat::State::kEmpty;
  publish(out);
  must_meet_ = must_meet_ || settings_.meets_on_change;
}

std::vector<uint32_t> Machine::gone_workers() const {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < view_.workers.size(); rank++) {
    if (!view_.workers[rank].is_live()) ranks.push_back(rank);
  }
  return ranks;
}

// The workers that are lost when the open barrier ends, or were lost and are replaced with it.
std::vector<uint32_t> Machine::lost_workers() const {
  std::set<uint32_t> ranks = entering_.replaced;
  for (const auto& [rank, vacancy] : vacant_) ranks.insert(rank);
  return {ranks.begin(), ranks.end()};
}

void Machine::look_for_lost(Out& out) {
  for (auto& [incarnation, process] : processes_) {
    if (process.has_ended || phase_ == Phase::kEnded || process.standing == Standing::kKnown) continue;
    if (process.closed_ms && now_ms_ - *process.closed_ms >= settings_.reconnect_ms) {
      lose(process,
           {fmt::format("its connection closed and was not reopened within {} ms", now_ms_ - *process.closed_ms)}, out);
    } else if (now_ms_ - process.heard_ms > settings_.heartbeat_timeout_ms) {
      lose(process, {fmt::format("silent for {} ms", now_ms_ - process.heard_ms)}, out);
    }
  }
}

void Machine::handle(const GiveUp& event, Out& out) {
  Process* process = live(event.member);
  if (process == nullptr || phase_ == Phase::kFinishing) return;
  lose(*process, {.how = event.why, .is_reachable = true, .verb = "counts as lost (--stall-timeout)"}, out);
}

void Machine::handle(const ProcessEnded& event, Out& out) {
  Process* process = live(event.member);
  if (process == nullptr || (process->join.is_late && !process->join.is_launched)) return;
  lose(*process, {"its process " + event.how}, out);
}

void Machine::look_for_missing(Out& out) {
  if (phase_ == Phase::kGathering && now_ms_ >= log_ms_) {
    log_ms_ = now_ms_ + settings_.log_missing_every_ms;
    out.push_back(LogMissing{"the start of the job", missing_members(), now_ms_ - phase_since_ms_});
  }
  if (barrier_ && now_ms_ >= barrier_->log_ms) {
    barrier_->log_ms = now_ms_ + settings_.log_missing_every_ms;
    LogMissing missing{fmt::format("barrier '{}'", barrier_->first.name), {}, now_ms_ - barrier_->since_ms};
    for (const auto& [incarnation, process] : processes_) {
      if (is_working(process) && !barrier_->bytes_of.contains(process.rank)) {
        missing.missing.push_back(member_of(process));
      }
    }
    if (missing.missing.empty()) missing = {"a border", awaited(), missing.waited_ms};
    for (const auto& [rank, vacancy] : vacant_servers_) missing.missing.push_back({Role::kServer, rank});
    std::ranges::sort(missing.missing);
    out.push_back(std::move(missing));
  }
}

void Machine::handle(const Tick&, Out& out) {
  if (phase_ == Phase::kGathering) {
    look_for_missing(out);
    if (now_ms_ - phase_since_ms_ < settings_.start_timeout_ms) return;
    return fail_start(
        Code::kStartup,
        fmt::format("{} did not join within {} s", to_text(missing_members()), settings_.start_timeout_ms / 1000.0),
        out);
  }
  // No process counts as lost while the driver completes the job's text on this thread.
  if (phase_ == Phase::kStarting) return;
  if (phase_ != Phase::kFailing) {
    look_for_lost(out);
    look_for_cut_links(out);
    look_for_missing(out);
    look_for_drained(out);
    look_for_slow_joins(out);
    look_for_vacancies(out);
  }
  settle(out);
}

void Machine::handle(const Slept& event, Out&) {
  phase_since_ms_ = std::min(now_ms_, phase_since_ms_ + event.ms);
  for (auto& [incarnation, process] : processes_) {
    process.heard_ms = std::min(now_ms_, process.heard_ms + event.ms);
    if (process.closed_ms) process.closed_ms = now_ms_;
    process.standing_since_ms = std::min(now_ms_, process.standing_since_ms + event.ms);
    for (auto& [server, link] : process.cut_links) link.since_ms = std::min(now_ms_, link.since_ms + event.ms);
  }
  for (auto& [ranks, pair] : cut_pairs_) pair.since_ms = std::min(now_ms_, pair.since_ms + event.ms);
  for (auto* vacant : {&vacant_, &vacant_servers_}) {
    for (auto& [rank, vacancy] : *vacant) vacancy.since_ms = std::min(now_ms_, vacancy.since_ms + event.ms);
  }
}

// ---- The barriers of the workers.

// Why the worker cannot enter the open barrier with this event; empty if it can.
std::string Machine::objection(const Process& process, const BarrierEnter& event) const {
  const std::string who = to_text(member_of(process));
  if (event.seq != barriers_released_) {
    return fmt::format("{} is at barrier {} ('{}') while the job is at {}", who, event.seq, event.name,
                       barriers_released_);
  }
  if (!event.stop_set_of.empty() && event.stop_set_of.size() != settings_.seats()) {
    return fmt::format("{} sent stop sets for {} workers, but the job has {}", who, event.stop_set_of.size(),
                       settings_.seats());
  }
  if (!barrier_) return "";
  const BarrierEnter& first = barrier_->first;
  if (first.name != event.name || first.content != event.content) {
    return fmt::format("{} enters barrier '{}' with {}, but others entered '{}' with {}", who, event.name,
                       event.content, first.name, first.content);
  }
  if (first.stop_set_of == event.stop_set_of) return "";
  return fmt::format("the stop sets that {} sent at barrier '{}' differ from those of the other workers", who,
                     event.name);
}

void Machine::handle(const BarrierEnter& event, Out& out) {
  Process* process = known(event.incarnation);
  if (process != nullptr && phase_ == Phase::kFailing) {
    out.push_back(Reject{event.incarnation, failure_.code, failure_.message});
    return;
  }
  if (process == nullptr || !started() || process->has_ended || process->join.role != Role::kWorker) {
    return turn_away(event.incarnation, out);
  }
  if (event.joins) return enter_late(*process, out);
  if (event.seq + 1 == barriers_released_) {
    out.push_back(RepeatBarrier{event.incarnation, event.seq});
    return;
  }
  const std::string why = objection(*process, event);
  if (!why.empty()) return fail_job(Code::kInternal, why, out);
  if (!barrier_) {
    barrier_ = Barrier{.first = event,
                       .border = 0,
                       .is_torn = false,
                       .is_whole = false,
                       .kept = {},
                       .bytes_of = {},
                       .bytes = 0,
                       .is_judged = false,
                       .since_ms = now_ms_,
                       .log_ms = now_ms_ + settings_.log_missing_first_ms};
  }
  barrier_->border = std::max(barrier_->border, event.border);
  barrier_->is_torn = barrier_->is_torn || event.is_torn;
  barrier_->is_whole = barrier_->is_whole || event.is_whole;
  if (event.kept) barrier_->kept = std::min(barrier_->kept.value_or(*event.kept), *event.kept);
  process->unreached = event.unreached;
  uint64_t& of_rank = barrier_->bytes_of[process->rank];
  barrier_->bytes += event.bytes - std::exchange(of_rank, event.bytes);
  if (barrier_->bytes > settings_.barrier_bytes_max) {
    return fail_job(Code::kUsage,
                    fmt::format("barrier '{}': the messages of {} workers have {} bytes in total, more than the limit "
                                "of {}: use fewer workers",
                                event.name, barrier_->bytes_of.size(), barrier_->bytes, settings_.barrier_bytes_max),
                    out);
  }
  settle(out);
}

// Whether the workers are at a border when all of them have entered the open barrier. If their group is torn, they are
// at one wherever they are, as nobody can make another step. But a worker cannot begin at the end of an epoch, so if
// one of them has made all steps of its epoch, they meet again after the next step.
bool Machine::is_at_border() const {
  if (restore_view_ != 0) return false;
  if (phase_ == Phase::kStopping && meets_ && barrier_->border == hold_) return true;
  return is_group() && barrier_->is_torn && !barrier_->is_whole && (phase_ == Phase::kRunning || is_before_border());
}

void Machine::settle_barrier(Out& out) {
  if (!barrier_) return look_for_forgotten(out);
  if (barrier_->bytes_of.empty()) return;
  for (const auto& [incarnation, process] : processes_) {
    const bool is_here = barrier_->bytes_of.contains(process.rank) || entering_.ranks.contains(process.rank);
    if (is_working(process) && !is_here) return;
  }
  if (waits_for_cut_pairs(out) || !have_servers_gone_back(out)) return;
  const bool is_border = is_at_border();
  if (is_border && !seat_newcomers(out)) return;
  // Once the last steps are decided (kStopping), they come before this barrier, and no worker begins a later one. So
  // the stop sets stay if the job stops, and the last steps say nothing about the new sets if it continues after a
  // border.
  const std::vector<uint32_t>& stop_set_of = barrier_->first.stop_set_of;
  if (!stop_set_of.empty() && (phase_ != Phase::kStopping || meets_)) {
    stop_set_of_ = stop_set_of;
    stop_after_.clear();
  }
  const bool begins_again = trains_ && barrier_->first.begins_training;
  trains_ = trains_ || barrier_->first.begins_training;
  ReleaseBarrier release{.seq = barriers_released_++,
                         .gone = gone_workers(),
                         .joined = {},
                         .lost = lost_workers(),
                         .passed = is_border ? hold_ : 0};
  if (restore_view_ != 0) release.restored = view_.restored;
  release.view = std::exchange(restore_view_, 0);
  for (auto& [incarnation, process] : processes_) {
    if (!is_working(process) || !entering_.ranks.contains(process.rank)) continue;
    process.joined_barrier = release.seq;
    release.joined.push_back(process.rank);
  }
  std::ranges::sort(release.joined);
  barrier_.reset();
  entering_ = {};
  out.push_back(std::move(release));
  // The workers went back after they had answered the Hold, so it must count their steps again.
  if (begins_again && (phase_ == Phase::kHolding || phase_ == Phase::kStopping)) return begin_hold(meets_, out);
  if (!is_border) return;
  phase_ = Phase::kRunning;
  must_meet_ = is_group() && std::ranges::any_of(processes_, [](const auto& entry) {
                 return is_working(entry.second) && entry.second.must_leave;
               });
  stop_after_.clear();
  if (!stop_waits_by_.empty()) handle(StopRequested{std::exchange(stop_waits_by_, "")}, out);
}

// ---- Stopping and ending the job.

void Machine::handle(const StopRequested& event, Out& out) {
  if (phase_ == Phase::kGathering || phase_ == Phase::kStarting) {
    return fail_start(Code::kPreempted, fmt::format("{} was asked to stop before the job had started", event.by), out);
  }
  if (phase_ == Phase::kPreparing) {
    return fail_job(Code::kPreempted, fmt::format("{} was asked to stop before the job had started", event.by), out);
  }
  if (is_before_border()) {
    stop_waits_by_ = event.by;
    return settle(out);  // nobody waits for another worker anymore
  }
  if (phase_ != Phase::kRunning) return;
  stop_requested_ = true;
  begin_hold(false, out);
}

void Machine::begin_hold(bool meets, Out& out) {
  hold_++;
  meets_ = meets;
  phase_ = Phase::kHolding;
  phase_since_ms_ = now_ms_;
  for (auto& [incarnation, process] : processes_) process.steps_at_hold.reset();
  tell(Role::kWorker, out);
  settle(out);
}

bool Machine::is_before_border() const {
  return meets_ && (phase_ == Phase::kHolding || phase_ == Phase::kStopping);
}

// Why the worker cannot leave; empty if it can. `process`: the live worker with this rank, or null.
std::string Machine::objection(const LeaveAsked& event, const Process* process) const {
  const std::string who = to_text(Member{Role::kWorker, event.rank});
  if (process == nullptr || !is_working(*process)) return fmt::format("{} does not take part in the job now", who);
  if (settings_.on_worker_loss == OnWorkerLoss::kFail) {
    return fmt::format("{} cannot leave: the job was started without --on-worker-loss wait or shrink", who);
  }
  if (phase_ != Phase::kRunning && !is_before_border()) {
    return fmt::format("{} cannot leave: the job is about to end", who);
  }
  if (!trains_) return fmt::format("{} cannot leave before all workers have the initial weights", who);
  if (process->must_leave || continues_without(*process)) return "";
  return settings_.min_workers == 1
             ? fmt::format("{} cannot leave: no other worker would be left", who)
             : fmt::format("{} cannot leave: fewer than {} workers would be left (--min-workers)", who,
                           settings_.min_workers);
}

void Machine::handle(const LeaveAsked& event, Out& out) {
  Process* process = live(Member{Role::kWorker, event.rank});
  if (process != nullptr && event.by_signal && is_working(*process)) {
    if (!process->drain_ms) process->drain_ms = now_ms_;
    return;
  }
  const std::string why = objection(event, process);
  if (!why.empty()) return out.push_back(RefuseLeave{event.rank, why});
  let_leave(*process, out);
  settle(out);
}

// A group would lose what the worker has added to a step that others have not completed yet, so it leaves at a border.
void Machine::let_leave(Process& process, Out& out) {
  if (std::exchange(process.must_leave, true)) return;
  out.push_back(Tell{process.join.incarnation, LeaveJob{is_group()}});
  must_meet_ = must_meet_ || is_group();
}

// Often all processes of a job get the same signal at almost the same time, and then the job is to stop.
void Machine::look_for_drained(Out& out) {
  const auto stays = [](const Process& process) { return !process.must_leave && !process.drain_ms; };
  const bool some_stay = !live(Role::kWorker, stays).empty();
  for (auto& [incarnation, process] : processes_) {
    if (phase_ != Phase::kRunning && phase_ != Phase::kPreparing && !is_before_border()) return;
    if (!is_working(process) || process.must_leave) continue;
    if (!process.drain_ms || now_ms_ - *process.drain_ms < settings_.drain_ms) continue;
    process.drain_ms.reset();
    if (some_stay && objection({.rank = process.rank}, &process).empty()) {
      let_leave(process, out);
    } else {
      handle(StopRequested{to_text(member_of(process))}, out);
    }
  }
}

// Answers a request to leave when the process has ended in whatever way.
void Machine::end_leave(const Process& process, Out& out) const {
  if (!process.must_leave || !process.has_ended) return;
  if (process.has_left) return out.push_back(DeclareLeft{member_of(process)});
  const char* how = process.is_lost ? "was lost before it had left" : "ended before it had left";
  out.push_back(RefuseLeave{process.rank, fmt::format("{} {}", to_text(member_of(process)), how)});
}

// While the workers are on their way to a border, they need no other one.
void Machine::handle(const BorderAsked& event, Out& out) {
  const Process* process = known(event.incarnation);
  if (process == nullptr || process->has_ended || phase_ != Phase::kRunning) return;
  must_meet_ = true;
  settle(out);
}

void Machine::handle(const Held& event, Out& out) {
  Process* process = known(event.incarnation);
  if (process == nullptr || phase_ != Phase::kHolding || !is_working(*process)) return;
  if (event.number != hold_) return;
  process->heard_ms = now_ms_;
  process->steps_at_hold = event.steps_begun;
  settle(out);
}

// Each set stops after the largest number of steps that any of its workers has begun. All workers of the set can still
// finish these steps. If they need each other's gradients, none can have finished a step that another never begins.
// Workers that are done count with the steps that they made, and one that has joined at least with those before its
// first one: it may not have begun a step yet, and may be the only one that is left.
void Machine::settle_hold(Out& out) {
  if (phase_ != Phase::kHolding) return;
  std::map<uint32_t, uint64_t> steps;
  for (const auto& [incarnation, process] : processes_) {
    if (process.join.role != Role::kWorker || process.is_lost || process.has_left) continue;
    if (process.standing != Standing::kTakesPart) continue;
    if (!process.has_ended && !process.steps_at_hold) return;
    uint64_t& of_set = steps[stop_set(process)];
    const Seat& seat = view_.workers[process.rank];
    const uint64_t before = seat.incarnation == incarnation ? seat.begin : 0;
    of_set = std::max({of_set, before, process.has_ended ? process.steps_begun : *process.steps_at_hold});
  }
  stop_after_ = std::move(steps);
  phase_ = Phase::kStopping;
  phase_since_ms_ = now_ms_;
  tell(Role::kWorker, out);
}

uint32_t Machine::stop_set(const Process& process) const {
  return stop_set_of_.empty() ? 0 : stop_set_of_[process.rank];
}

std::string Machine::stopped_after() const {
  DT_CHECK(!stop_after_.empty(), "the job stopped before the last steps were decided");
  const auto by_steps = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [first, last] = std::ranges::minmax_element(stop_after_, by_steps);
  if (first->second == last->second) return fmt::format("stopped after {} steps", first->second);
  return fmt::format("stopped after {} to {} steps", first->second, last->second);
}

// Whether the other workers would not fail in the same way: the process has lost a device, memory or a connection.
static bool is_own_misfortune(Code code) {
  return code == Code::kDevice || code == Code::kPeerLost || code == Code::kSchedulerLost || code == Code::kUnavailable;
}

void Machine::handle(const Done& event, Out& out) {
  Process* process = known(event.incarnation);
  if (process == nullptr || process->has_ended || !started()) return;
  process->heard_ms = now_ms_;
  process->steps_begun = event.steps_begun;
  if (process->standing != Standing::kTakesPart) {
    return drop(*process, event.failure ? "it failed: " + event.message : "it ended", out);
  }
  const std::string who = to_text(member_of(*process));
  const bool as_asked = stop_requested_ && event.failure == Code::kPreempted;
  if (event.failure && !as_asked && is_own_misfortune(*event.failure) && continues_without(*process)) {
    return lose(*process, {"it failed: " + event.message}, out);
  }
  process->has_left = event.has_left && process->must_leave && continues_without(*process);
  process->has_ended = true;
  if (process->has_left) publish_without(*process, out);
  preempted_ = preempted_ || as_asked;
  end_leave(*process, out);
  if (event.failure && !as_asked) {
    fail_job(*event.failure, fmt::format("{} failed: {}", who, event.message), out);
  } else if (process->join.role == Role::kServer && phase_ != Phase::kFinishing) {
    fail_job(Code::kPeerLost, fmt::format("{} ended before the workers had finished", who), out);
  } else if (phase_ == Phase::kPreparing) {
    fail_job(Code::kPeerLost, fmt::format("{} ended before the job had started", who), out);
  }
  settle(out);
}

// Only the first failure counts. It is sent to every process that has not ended.
void Machine::fail_job(Code code, const std::string& message, Out& out) {
  if (phase_ == Phase::kFailing || phase_ == Phase::kEnded) return;
  failure_ = {code, message};
  phase_ = Phase::kFailing;
  phase_since_ms_ = now_ms_;
  barrier_.reset();
  tell(Role::kWorker, out);
  tell(Role::kServer, out);
}

std::optional<Notice> Machine::notice_for(const Process& process) const {
  const bool worker = is_working(process);
  if (phase_ == Phase::kFailing) return failure_;
  if (phase_ == Phase::kHolding && worker && !process.steps_at_hold) return Hold{hold_};
  if (phase_ == Phase::kStopping && worker) {
    const auto last = stop_after_.find(stop_set(process));
    return StopAfter{hold_, last == stop_after_.end() ? 0 : last->second, meets_};
  }
  if (phase_ == Phase::kFinishing && process.join.role == Role::kServer) return Finish{preempted_};
  return std::nullopt;
}

void Machine::tell(Role role, Out& out) {
  for (const auto& [incarnation, process] : processes_) {
    if (process.join.role != role || process.has_ended) continue;
    if (auto notice = notice_for(process)) out.push_back(Tell{incarnation, std::move(*notice)});
  }
}

bool Machine::all_gone(Role role) const {
  return std::ranges::all_of(processes_, [&](const auto& entry) {
    const Process& process = entry.second;
    return process.join.role != role || process.has_ended || process.standing != Standing::kTakesPart;
  });
}

void Machine::settle(Out& out) {
  if (!started() || phase_ == Phase::kEnded) return;
  if (phase_ == Phase::kRunning && std::exchange(must_meet_, false)) return begin_hold(true, out);
  if (phase_ != Phase::kFailing) {
    admit_known(out);
    settle_barrier(out);
    settle_hold(out);
  }
  settle_end(out);
}

void Machine::settle_end(Out& out) {
  if (runs() && all_gone(Role::kWorker)) {
    phase_ = Phase::kFinishing;
    phase_since_ms_ = now_ms_;
    drop_all(out);
    tell(Role::kServer, out);
  }
  const Millis waited = now_ms_ - phase_since_ms_;
  if (phase_ == Phase::kFinishing && (all_gone(Role::kServer) || waited > settings_.heartbeat_timeout_ms)) {
    phase_ = Phase::kEnded;
    std::optional<StopJob> failure;
    if (preempted_) failure = StopJob{Code::kPreempted, stopped_after()};
    out.push_back(End{failure});
  }
  if (phase_ == Phase::kFailing) {
    // A disconnected process may be about to reconnect, and must still be told what happened.
    const auto left = [&](const Process& p) {
      return p.has_ended || (p.closed_ms && now_ms_ - *p.closed_ms >= settings_.reconnect_ms);
    };
    const bool nobody = std::ranges::all_of(processes_, [&](const auto& entry) { return left(entry.second); });
    if (!nobody && waited < settings_.leave_ms) return;
    phase_ = Phase::kEnded;
    out.push_back(End{failure_});
  }
}

}  // namespace dtrain::sync::membership
