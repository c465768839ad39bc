// A worker that joins the running job. Its seat is published first, so that every server accepts its connections; then
// its join is answered, and it prepares itself; then all workers meet at a border, from which on it takes part.
#include <fmt/ranges.h>

#include <utility>

#include "sync/differing_keys.h"
#include "sync/membership.h"

namespace dtrain::sync::membership {

// Why the process cannot join the running job; empty if nothing but a seat may be missing.
std::string Machine::objection_to_late(const Join& join) const {
  if (join.incarnation == 0 || join.role != Role::kWorker) return "only a worker can join a job that is running";
  if (!started()) {
    return "the job has not started yet; a worker that takes part from the start is started with --role worker";
  }
  if (settings_.on_worker_loss == OnWorkerLoss::kFail) {
    return "the job was started without --on-worker-loss wait or shrink, so no worker can join it";
  }
  const bool continues = phase_ == Phase::kRunning || is_before_border();
  if (!continues) return "the job is about to end";
  if (const auto keys = differing_keys(settings_.job_text, join.job_text); !keys.empty()) {
    return fmt::format("the flags of this worker differ from those of the job: {}", fmt::join(keys, ", "));
  }
  if (join.records_train != first_.records_train || join.records_val != first_.records_val) {
    return fmt::format(
        "this worker has {} training records and {} validation records, but the workers of the job have {} and {}",
        join.records_train, join.records_val, first_.records_train, first_.records_val);
  }
  if (join.data_hash == first_.data_hash) return "";
  return is_group()
             ? "this worker has other data than the workers of the job (as many records, but of other sizes), or "
               "another number of devices"
             : "this worker has other data than the workers of the job: as many records, but of other sizes";
}

// Why a process that has lost its seat gets none again; empty if it may.
std::string Machine::objection_to_return(const Join& join) const {
  const auto found = processes_.find(join.formerly);
  if (found == processes_.end() || !found->second.has_ended) return "";
  const Process& process = found->second;
  if (process.must_leave) return "this worker was asked to leave";
  const auto lost = std::ranges::count_if(process.seats_lost_ms,
                                          [&](Millis since) { return now_ms_ - since < settings_.lost_seats_ms; });
  if (static_cast<size_t>(lost) < settings_.lost_seats_max) return "";
  return fmt::format(
      "this worker has been lost {} times within {:g} minutes; look for the cause on its host and in the network, and "
      "then start another worker with 'dtrain join'",
      lost, static_cast<double>(settings_.lost_seats_ms) / 60'000.0);
}

// The seat that the process would get; nullopt if it cannot have one. A seat that others wait for comes first. Without
// one, a seat above the leader's is better, so that another worker need not become the leader.
std::optional<uint32_t> Machine::seat_for(const Join& join) const {
  const auto is_empty = [&](uint32_t rank) { return view_.workers[rank].state == Seat::State::kEmpty; };
  if (join.want_rank) {
    const bool is_free = *join.want_rank < view_.workers.size() && is_empty(*join.want_rank);
    if (is_free || join.formerly == 0) return is_free ? join.want_rank : std::nullopt;
  }
  for (const auto& [rank, vacancy] : vacant_) {
    if (is_empty(rank)) return rank;
  }
  std::optional<uint32_t> below;
  bool has_leader = false;
  for (uint32_t rank = 0; rank < view_.workers.size(); rank++) {
    has_leader = has_leader || view_.workers[rank].is_live();
    if (is_empty(rank) && has_leader) return rank;
    if (is_empty(rank) && !below) below = rank;
  }
  return below;
}

void Machine::take_in(const Join& event, Out& out) {
  std::string why = objection_to_late(event);
  if (why.empty()) why = objection_to_return(event);
  const std::optional<uint32_t> seat = why.empty() ? seat_for(event) : std::nullopt;
  if (why.empty() && !seat && event.formerly != 0) {
    why = "other workers have taken its place and all other seats";
  } else if (why.empty() && !seat && event.want_rank) {
    why = *event.want_rank < settings_.seats()
              ? fmt::format("worker {} takes part in the job, or is about to", *event.want_rank)
              : fmt::format(
                    "rank {} does not exist: the job has seats for {} workers "
                    "(--max-workers)",
                    *event.want_rank, settings_.seats());
  } else if (why.empty() && !seat) {
    why = fmt::format("the job already has its {} workers; --max-workers sets the largest number", settings_.seats());
  }
  if (!seat) {
    return out.push_back(Refuse{event.incarnation, event.formerly == 0 ? Code::kUsage : Code::kPeerLost, why});
  }
  Process& process = processes_[event.incarnation];
  process.join = event;
  if (const Process* former = known(event.formerly)) process.seats_lost_ms = former->seats_lost_ms;
  process.arrival = arrivals_++;
  process.rank = *seat;
  process.heard_ms = process.standing_since_ms = now_ms_;
  process.standing = Standing::kKnown;
  view_.workers[*seat] = {.incarnation = event.incarnation, .state = Seat::State::kJoining};
  publish(out);
  process.view = view_.number;
  settle(out);
}

void Machine::handle(const Viewed& event, Out& out) {
  Process* process = known(event.incarnation);
  if (process == nullptr || event.number <= process->viewed) return;
  process->viewed = event.number;
  settle(out);
}

bool Machine::is_known_to_servers(uint64_t view) const {
  return vacant_servers_.empty() && std::ranges::all_of(processes_, [&](const auto& entry) {
           const Process& process = entry.second;
           return process.join.role != Role::kServer || process.has_ended || process.viewed >= view;
         });
}

void Machine::admit_known(Out& out) {
  for (auto& [incarnation, process] : processes_) {
    if (process.has_ended || process.standing != Standing::kKnown || !is_known_to_servers(process.view)) continue;
    process.standing = Standing::kPreparing;
    process.heard_ms = process.standing_since_ms = now_ms_;
    out.push_back(Admit{{member_of(process), incarnation}});
  }
}

void Machine::enter_late(Process& process, Out& out) {
  if (process.standing == Standing::kPreparing) {
    process.standing = Standing::kReady;
    process.standing_since_ms = now_ms_;
    must_meet_ = true;
    return settle(out);
  }
  const std::optional<uint64_t>& with = process.joined_barrier;
  if (with && *with + 1 == barriers_released_) out.push_back(RepeatBarrier{process.join.incarnation, *with});
}

void Machine::look_for_slow_joins(Out& out) {
  for (auto& [incarnation, process] : processes_) {
    if (process.has_ended || process.standing != Standing::kPreparing) continue;
    if (now_ms_ - process.standing_since_ms < settings_.start_timeout_ms) continue;
    drop(process, fmt::format("it was not ready within {} s", settings_.start_timeout_ms / 1000.0), out);
  }
}

// Nobody has waited for the process, which learns it from the view.
void Machine::drop(Process& process, const std::string& why, Out& out) {
  const Incarnation incarnation = process.join.incarnation;
  const bool needs_another = process.join.formerly != 0 && vacant_.contains(process.rank);
  out.push_back(DeclareDropped{member_of(process), why, needs_another});
  if (process.standing == Standing::kKnown) {
    out.push_back(Refuse{incarnation, Code::kPeerLost, fmt::format("this worker no longer joins the job: {}", why)});
  }
  view_.workers[process.rank].state = Seat::State::kEmpty;
  publish(out);
  process.has_ended = process.is_lost = true;
  note_lost_seat(process);
  settle(out);
}

// The job is over.
void Machine::drop_all(Out& out) {
  const std::string why = "the job has ended before this worker could take part";
  for (auto& [incarnation, process] : processes_) {
    if (process.has_ended || process.standing == Standing::kTakesPart) continue;
    if (process.standing == Standing::kKnown) out.push_back(Refuse{incarnation, Code::kPreempted, why});
    out.push_back(Reject{incarnation, Code::kPreempted, why});
    process.has_ended = true;
  }
}

// The first step of a worker that joins at the border: the next one of its stop set, or if the set has no other worker,
// a step that no worker has made. A slice may have later rounds of this rank, see sync::seat::JoinRounds.
uint64_t Machine::first_step(const Process& process) const {
  const auto of_set = stop_after_.find(stop_set(process));
  if (of_set != stop_after_.end()) return of_set->second;
  uint64_t largest = 0;
  for (const auto& [set, steps] : stop_after_) largest = std::max(largest, steps);
  return largest;
}

// The process that is ready to take this seat; null if there is none.
const Machine::Process* Machine::candidate(uint32_t rank) const {
  const auto found = std::ranges::find_if(processes_, [&](const auto& entry) {
    const Process& process = entry.second;
    return !process.has_ended && process.rank == rank && process.standing == Standing::kReady;
  });
  return found == processes_.end() ? nullptr : &found->second;
}

// The lost workers whose place another one must take before the others continue. Nobody is, if the job is to stop.
std::vector<Member> Machine::awaited() const {
  std::vector<Member> awaited;
  if (!stop_waits_by_.empty()) return awaited;
  for (const auto& [rank, vacancy] : vacant_) {
    if (settings_.stands_still && candidate(rank) == nullptr) awaited.push_back({Role::kWorker, rank});
  }
  return awaited;
}

// All workers stand still at a border: lets those that are ready take part from there. Returns whether all can
// continue: no replacement is missing, and the rounds of all slices include the newcomers.
bool Machine::seat_newcomers(Out& out) {
  if (!awaited().empty()) return false;
  bool has_news = false;
  for (auto& [incarnation, process] : processes_) {
    if (process.has_ended || process.standing != Standing::kReady) continue;
    process.standing = Standing::kTakesPart;
    view_.workers[process.rank] = {.incarnation = incarnation, .begin = first_step(process)};
    if (vacant_.erase(process.rank) > 0) entering_.replaced.insert(process.rank);
    entering_.ranks.insert(process.rank);
    out.push_back(DeclareJoined{member_of(process)});
    has_news = true;
  }
  if (has_news) {
    publish(out);
    entering_.view = view_.number;
  }
  return is_known_to_servers(entering_.view);
}

// The scheduler came back before the end of a border at which workers begin. If everybody is lost who was there before,
// nobody comes to this barrier again or knows the position of the run.
void Machine::look_for_forgotten(Out& out) {
  if (entering_.ranks.empty() || !runs()) return;
  const auto was_there = [this](const Process& process) { return !entering_.ranks.contains(process.rank); };
  if (!live(Role::kWorker, was_there).empty()) return;
  fail_job(Code::kPeerLost, "all workers were lost that took part before others joined", out);
}

void Machine::look_for_vacancies(Out& out) {
  for (const auto& [rank, vacancy] : vacant_) {
    const bool is_stopping = phase_ != Phase::kRunning && !is_before_border();
    if (is_stopping || now_ms_ - vacancy.since_ms < settings_.rejoin_timeout_ms) continue;
    if (view_.workers[rank].state != Seat::State::kEmpty) continue;
    return fail_vacant({Role::kWorker, rank}, vacancy.why, out);
  }
  for (const auto& [rank, vacancy] : vacant_servers_) {
    if (!runs() || now_ms_ - vacancy.since_ms < settings_.rejoin_timeout_ms) continue;
    return fail_vacant({Role::kServer, rank}, vacancy.why, out);
  }
}

void Machine::fail_vacant(const Member& member, const std::string& why, Out& out) {
  fail_job(Code::kPeerLost,
           fmt::format("{} was lost: {}; no other {} has taken its place within {} s (--rejoin-timeout)",
                       to_text(member), why, to_text(member.role), settings_.rejoin_timeout_ms / 1000.0),
           out);
}

}  // namespace dtrain::sync::membership
