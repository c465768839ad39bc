// The events from the first join until every process has its rank and the job begins.
#include "sync/membership.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sync/differing_keys.h"

namespace dtrain::sync::membership {

std::optional<Refuse> Machine::objection(const Join& join) const {
  const auto refuse = [&](std::string why) { return Refuse{join.incarnation, Code::kUsage, std::move(why)}; };
  const std::string_view role = to_text(join.role);
  if (join.incarnation == 0) return refuse("the incarnation must not be 0");
  if (const auto keys = differing_keys(settings_.job_text, join.job_text); !keys.empty()) {
    return refuse(fmt::format("the flags of this {} differ from those of the job: {}", role, fmt::join(keys, ", ")));
  }
  if (join.want_rank && *join.want_rank >= expected(join.role)) {
    return refuse(
        fmt::format("rank {} does not exist: the job has {} {}s", *join.want_rank, expected(join.role), role));
  }
  if (join.want_rank && wanted_ranks(join.role).contains(*join.want_rank)) {
    return refuse(fmt::format("another process has already joined as {} {}", role, *join.want_rank));
  }
  if (joined(join.role) >= expected(join.role)) {
    return refuse(fmt::format("the job already has its {} {}s", expected(join.role), role));
  }
  return std::nullopt;
}

void Machine::handle(const Join& event, Out& out) {
  if (Process* process = known(event.incarnation)) return repeat_join(event, *process, out);
  if (event.is_late) return take_in(event, out);
  if (const std::optional<uint32_t> rank = place_for_server(event)) return take_in_server(event, *rank, out);
  if (auto refusal = objection(event)) {
    out.push_back(std::move(*refusal));
    return;
  }
  if (phase_ != Phase::kGathering) {
    out.push_back(Refuse{event.incarnation, Code::kUsage, "the job has started without this process"});
    return;
  }
  Process& process = processes_[event.incarnation];
  process.join = event;
  process.arrival = arrivals_++;
  process.heard_ms = now_ms_;
  start_if_complete(out);
}

void Machine::repeat_join(const Join& event, Process& process, Out& out) {
  process.heard_ms = now_ms_;
  process.closed_ms.reset();
  const Node node{member_of(process), event.incarnation};
  if (phase_ == Phase::kFailing) {
    out.push_back(Refuse{event.incarnation, failure_.code, failure_.message});
  } else if (phase_ == Phase::kPreparing && event.prepared) {
    process.join.records_train = event.records_train;
    process.join.records_val = event.records_val;
    process.join.data_hash = event.data_hash;
    process.join.prepared = true;
    start_if_prepared(out);
  } else if (phase_ == Phase::kPreparing) {
    out.push_back(Prepare{node});
  } else if (process.has_ended) {
    out.push_back(Refuse{event.incarnation, Code::kPeerLost, "this worker no longer joins the job"});
  } else if (started() && process.standing != Standing::kKnown) {
    out.push_back(Admit{node, process.restores});  // again, because the answer was lost on its way
  }
}

void Machine::handle(const Withdraw& event, Out& out) {
  Process* process = known(event.incarnation);
  if (process == nullptr) return;
  if (phase_ == Phase::kGathering) {
    processes_.erase(event.incarnation);
  } else if (phase_ == Phase::kStarting) {
    // The process may repeat its join in time. If it does not, it is declared lost, as when a stream stays closed.
    process->closed_ms = now_ms_;
  } else if (process->standing == Standing::kKnown && !process->has_ended) {
    drop(*process, "it withdrew its request", out);
  }
}

// Requested ranks are fixed. The other processes get the remaining ranks in order of arrival.
void Machine::give_ranks() {
  for (const Role role : {Role::kWorker, Role::kServer}) {
    const std::set<uint32_t> wanted = wanted_ranks(role);
    std::vector<Process*> others;
    for (auto& [incarnation, process] : processes_) {
      if (process.join.role != role) continue;
      if (process.join.want_rank) process.rank = *process.join.want_rank;
      if (!process.join.want_rank) others.push_back(&process);
    }
    std::ranges::sort(others, {}, &Process::arrival);
    uint32_t free = 0;
    for (Process* process : others) {
      while (wanted.contains(free)) free++;
      process->rank = free++;
    }
  }
}

std::vector<Refuse> Machine::with_other_records() const {
  const auto first = std::ranges::find_if(
      processes_, [](const auto& entry) { return entry.second.join.role == Role::kWorker && entry.second.rank == 0; });
  if (first == processes_.end()) return {};
  const Join& truth = first->second.join;
  std::vector<Refuse> refusals;
  for (const auto& [incarnation, process] : processes_) {
    const Join& join = process.join;
    const bool same = join.records_train == truth.records_train && join.records_val == truth.records_val;
    if (join.role != Role::kWorker || same) continue;
    refusals.push_back(
        {incarnation, Code::kUsage,
         fmt::format("worker {} has {} training records and {} validation records, but worker 0 has {} and {}",
                     process.rank, join.records_train, join.records_val, truth.records_train, truth.records_val)});
  }
  return refusals;
}

void Machine::start_if_complete(Out& out) {
  if (joined(Role::kWorker) < settings_.workers || joined(Role::kServer) < settings_.servers) return;
  give_ranks();
  if (std::ranges::any_of(processes_, [](const auto& entry) { return entry.second.join.lacks_index; })) {
    phase_ = Phase::kPreparing;
    phase_since_ms_ = now_ms_;
    for (auto& [incarnation, process] : processes_) {
      process.heard_ms = now_ms_;
      out.push_back(Prepare{{member_of(process), incarnation}});
    }
    return;
  }
  const std::vector<Refuse> refusals = with_other_records();
  for (const Refuse& refusal : refusals) {
    processes_.erase(refusal.incarnation);
    out.push_back(refusal);
  }
  if (refusals.empty()) start(out);
}

// If a process's numbers of records differ from those of worker 0, the job fails, because the process is already a
// member.
void Machine::start_if_prepared(Out& out) {
  if (!std::ranges::all_of(processes_, [](const auto& entry) { return entry.second.join.prepared; })) return;
  const std::vector<Refuse> refusals = with_other_records();
  if (!refusals.empty()) return fail_job(refusals.front().code, refusals.front().why, out);
  start(out);
}

void Machine::start(Out& out) {
  phase_ = Phase::kStarting;
  phase_since_ms_ = now_ms_;
  Start start;
  for (const auto& [incarnation, process] : processes_) start.nodes.push_back({member_of(process), incarnation});
  std::ranges::sort(start.nodes, {}, &Node::member);
  if (!start.nodes.empty()) {
    const Join& first = processes_.at(start.nodes.front().incarnation).join;
    start.records_train = first.records_train;
    start.records_val = first.records_val;
    first_ = first;
  }
  out.push_back(std::move(start));
}

void Machine::handle(const Ready& event, Out& out) {
  if (phase_ != Phase::kStarting) return;
  DT_CHECK(event.stop_set_of.empty() || event.stop_set_of.size() == settings_.seats(),
           "the job has {} seats for workers, but the stop sets cover {}", settings_.seats(), event.stop_set_of.size());
  stop_set_of_ = event.stop_set_of;
  view_.workers.assign(settings_.seats(), Seat{.incarnation = 0, .state = Seat::State::kEmpty});
  view_.servers.resize(settings_.servers);
  for (const auto& [incarnation, process] : processes_) {
    if (process.join.role == Role::kWorker) {
      view_.workers[process.rank] = Seat{.incarnation = incarnation};
    } else {
      view_.servers[process.rank] = {.incarnation = incarnation, .address = process.join.address};
    }
  }
  phase_ = Phase::kRunning;
  phase_since_ms_ = now_ms_;
  for (auto& [incarnation, process] : processes_) {
    // A process that joined a second time has been monitored since Prepare.
    if (!process.join.prepared) process.heard_ms = now_ms_;
    out.push_back(Admit{{member_of(process), incarnation}});
  }
}

void Machine::handle(const StartFailed& event, Out& out) {
  fail_start(event.code, event.message, out);
}

void Machine::fail_start(Code code, const std::string& message, Out& out) {
  for (const auto& [incarnation, process] : processes_) out.push_back(Refuse{incarnation, code, message});
  phase_ = Phase::kEnded;
  out.push_back(End{StopJob{code, message}});
}

std::vector<Member> Machine::missing_members() const {
  std::vector<Member> missing;
  for (const Role role : {Role::kWorker, Role::kServer}) {
    // The lowest free ranks will go to processes that asked for no rank, so these ranks are not missing.
    const std::set<uint32_t> wanted = wanted_ranks(role);
    uint32_t unranked = joined(role) - static_cast<uint32_t>(wanted.size());
    for (uint32_t rank = 0; rank < expected(role); rank++) {
      if (wanted.contains(rank)) continue;
      if (unranked > 0) {
        unranked--;
      } else {
        missing.push_back({role, rank});
      }
    }
  }
  return missing;
}

}  // namespace dtrain::sync::membership
