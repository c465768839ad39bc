// A server that is lost while the job trains. The scheduler publishes a view in which nobody has its place. Another
// server takes the place in a further view, which tells the workers its address.
//
// The workers cannot complete their step, so all of them come to a barrier. With kGoBack, the servers then go back to
// the newest version of which each has a durable snapshot, as a view says, and when all have acknowledged that, the
// workers go back too. With kKeep, only the new server goes back, to its own newest snapshot, and the others begin new
// rounds with what they have.
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "sync/differing_keys.h"
#include "sync/membership.h"

namespace dtrain::sync::membership {

void Machine::lose_server(const Process& process, const std::string& how, Out& out) {
  view_.servers[process.rank].is_live = false;
  vacant_servers_[process.rank] = {now_ms_, how};
  view_.must_restore = true;
  report_view_ = restore_view_ = 0;
  publish(out);
}

// The place of a lost server that the process would get; nullopt if it gets none in this way.
std::optional<uint32_t> Machine::place_for_server(const Join& join) const {
  if (join.role != Role::kServer || join.incarnation == 0 || !runs() || vacant_servers_.empty()) return std::nullopt;
  const uint32_t rank = join.want_rank.value_or(vacant_servers_.begin()->first);
  return vacant_servers_.contains(rank) ? std::optional(rank) : std::nullopt;
}

void Machine::take_in_server(const Join& event, uint32_t rank, Out& out) {
  if (const auto keys = differing_keys(settings_.job_text, event.job_text); !keys.empty()) {
    return out.push_back(
        Refuse{event.incarnation, Code::kUsage,
               fmt::format("the flags of this server differ from those of the job: {}", fmt::join(keys, ", "))});
  }
  Process& process = processes_[event.incarnation];
  process.join = event;
  process.arrival = arrivals_++;
  process.rank = rank;
  process.heard_ms = process.standing_since_ms = now_ms_;
  process.restores = view_.restores;
  for (auto& [incarnation, worker] : processes_) worker.cut_links.erase(rank);  // to the server before it
  vacant_servers_.erase(rank);
  view_.servers[rank] = {.incarnation = event.incarnation, .address = event.address};
  out.push_back(Admit{{member_of(process), event.incarnation}, process.restores});
  out.push_back(DeclareJoined{member_of(process)});
  publish(out);
  settle(out);
}

void Machine::handle(const Snapshots& event, Out& out) {
  Process* process = known(event.incarnation);
  if (process == nullptr || process->has_ended) return;
  process->snapshots = event;
  std::ranges::sort(process->snapshots->versions);
  settle(out);
}

// The servers that go back: all, or with kKeep those that have joined since the last time.
std::vector<const Machine::Process*> Machine::servers_to_restore() const {
  std::vector<const Process*> servers;
  for (const auto& [incarnation, process] : processes_) {
    if (process.join.role != Role::kServer || process.has_ended) continue;
    if (settings_.on_server_loss == OnServerLoss::kKeep && process.restores != view_.restores) continue;
    servers.push_back(&process);
  }
  return servers;
}

// The newest version of which all these servers have a durable snapshot and to which all workers can go back. With
// kKeep each server goes back to its own newest one, and the result is the oldest of these. Nullopt: there is none.
std::optional<uint64_t> Machine::version_to_restore(const std::vector<const Process*>& servers) const {
  std::optional<std::vector<uint64_t>> common;
  for (const Process* server : servers) {
    if (server->snapshots->needs_none) continue;
    std::vector<uint64_t> versions = server->snapshots->versions, both;
    if (settings_.on_server_loss == OnServerLoss::kKeep) {
      if (!versions.empty()) both = {std::min(versions.back(), common ? common->back() : versions.back())};
    } else {
      std::erase_if(versions, [this](uint64_t version) { return version > barrier_->kept.value_or(version); });
      std::ranges::set_intersection(common.value_or(versions), versions, std::back_inserter(both));
    }
    if (both.empty()) return std::nullopt;
    common = std::move(both);
  }
  return common ? common->back() : 0;
}

// All workers are in a barrier. If some of them cannot complete their step without a lost server: returns whether the
// servers have gone back.
bool Machine::have_servers_gone_back(Out& out) {
  if (restore_view_ == 0 && !(view_.must_restore && barrier_->is_torn)) return true;
  if (!vacant_servers_.empty()) return false;
  if (restore_view_ == 0) restore_servers(out);
  return restore_view_ != 0 && is_known_to_servers(restore_view_);
}

// An old report may name a snapshot that its server has deleted since, and lack the one that all servers have. So the
// servers report again when no worker makes requests anymore.
void Machine::restore_servers(Out& out) {
  if (report_view_ == 0) {
    publish(out);
    report_view_ = view_.number;
  }
  const std::vector<const Process*> servers = servers_to_restore();
  const auto lacks_report = [](const Process* server) { return !server->snapshots; };
  if (!is_known_to_servers(report_view_) || std::ranges::any_of(servers, lacks_report)) return;
  const bool keeps = settings_.on_server_loss == OnServerLoss::kKeep;
  const std::optional<uint64_t> version = version_to_restore(servers);
  if (!version) {
    return fail_job(
        Code::kPeerLost,
        fmt::format("a lost server was replaced, but {}: it was not written yet, or the new server's host does not see "
                    "the directory (--snapshot-every, --state-dir); so the job cannot continue",
                    keeps ? "it has no snapshot" : "not all servers have a snapshot of the same version"),
        out);
  }
  view_.restores++;
  view_.restored = *version;
  view_.must_restore = false;
  out.push_back(DeclareRestore{*version, keeps});
  publish(out);
  restore_view_ = view_.number;
}

}  // namespace dtrain::sync::membership
