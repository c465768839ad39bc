// Connections between workers and servers, or between the workers of a group, that are cut although the scheduler hears
// both ends.
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "sync/membership.h"

namespace dtrain::sync::membership {

void Machine::handle(const LinksLost& event, Out&) {
  Process* process = known(event.incarnation);
  if (process == nullptr || process->join.role != Role::kWorker || !started()) return;
  std::map<uint32_t, CutLink> links;
  for (const LostLink& link : event.links) {
    const Process* server = live(Member{Role::kServer, link.server});
    if (server == nullptr) continue;
    // What was lost before may be the connection to the server that had this rank then.
    links[link.server] = {std::max(now_ms_ - std::min(now_ms_, link.lost_ms), server->standing_since_ms), link.why};
  }
  process->cut_links = std::move(links);
}

std::vector<Member> Machine::live(Role role, const std::function<bool(const Process&)>& is_meant) const {
  std::vector<Member> live;
  for (const auto& [incarnation, process] : processes_) {
    if (process.join.role != role || process.has_ended || process.standing != Standing::kTakesPart) continue;
    if (is_meant(process)) live.push_back(member_of(process));
  }
  std::ranges::sort(live);
  return live;
}

// Looks for the connection that was lost first, and judges it once it has been lost for the heartbeat timeout. By then
// the other workers have reported whether they have lost theirs to the same server, and silence of one of its two ends
// would have been noticed.
void Machine::look_for_cut_links(Out& out) {
  if (!runs()) return;
  const std::vector<Member> servers = live(Role::kServer, [](const Process&) { return true; });
  const Process* worker = nullptr;
  std::pair<Millis, uint32_t> first = {now_ms_, 0};
  for (const auto& [incarnation, process] : processes_) {
    if (process.has_ended) continue;
    for (const auto& [server, link] : process.cut_links) {
      if (!std::ranges::binary_search(servers, Member{Role::kServer, server})) continue;
      if (std::pair(link.since_ms, server) >= first) continue;
      worker = &process;
      first = {link.since_ms, server};
    }
  }
  if (worker == nullptr || now_ms_ - first.first < settings_.heartbeat_timeout_ms) return;
  judge_cut_link(*worker, first.second, out);
}

// Either end may be the cause. If most workers miss the server, it is lost; otherwise it is the worker.
void Machine::judge_cut_link(const Process& worker, uint32_t server, Out& out) {
  const CutLink& link = worker.cut_links.at(server);
  const std::vector<Member> without =
      live(Role::kWorker, [server](const Process& process) { return process.cut_links.contains(server); });
  const size_t workers = live(Role::kWorker, [](const Process&) { return true; }).size();
  const bool is_server = 2 * without.size() > workers;
  const Member lost = is_server ? Member{Role::kServer, server} : member_of(worker);
  const std::string whose = is_server ? fmt::format("{} of {} workers ({}) have lost their connections to it and could",
                                                    without.size(), workers, to_text(without))
                                      : fmt::format("it has lost its connection to server {} and could", server);
  const std::string how = fmt::format(
      "{} not open another one for {:.1f} s ({}), although the scheduler reaches both sides; check the "
      "network and firewalls between these hosts",
      whose, static_cast<double>(now_ms_ - link.since_ms) / 1000.0, link.why);
  lose(*live(lost), {.how = how, .is_reachable = true}, out);
}

// Counts the pairs of workers that could not connect to each other. Only what both say counts, because a worker may be
// waited for in vain while it waits for a third one.
void Machine::note_cut_pairs() {
  std::map<std::pair<uint32_t, uint32_t>, CutPair> pairs;
  for (const auto& [incarnation, process] : processes_) {
    if (!is_working(process) || !process.unreached || *process.unreached <= process.rank) continue;
    const Process* other = live(Member{Role::kWorker, *process.unreached});
    if (other == nullptr || !is_working(*other) || other->unreached != process.rank) continue;
    const std::pair ranks(process.rank, other->rank);
    const auto before = cut_pairs_.find(ranks);
    CutPair& pair = pairs[ranks];
    pair = before == cut_pairs_.end() ? CutPair{now_ms_, 0} : before->second;
    pair.times++;
  }
  cut_pairs_ = std::move(pairs);
}

// The number of live workers that this one misses or that miss it.
size_t Machine::missed_workers(uint32_t rank) const {
  std::set<uint32_t> others;
  for (const auto& [incarnation, process] : processes_) {
    if (!is_working(process) || !process.unreached) continue;
    if (process.rank == rank) others.insert(*process.unreached);
    if (*process.unreached == rank) others.insert(process.rank);
  }
  std::erase_if(others, [&](uint32_t other) { return !view_.workers[other].is_live(); });
  return others.size();
}

// All workers are in a barrier, at least one of them because their group could not be made. Workers that have missed
// each other twice try once more when the heartbeat timeout has passed. If they still miss each other, one of the two
// is lost: the one that more workers miss, or else the one of the higher rank. Returns whether the barrier must not end
// now.
bool Machine::waits_for_cut_pairs(Out& out) {
  if (!is_group() || !runs() || !barrier_->is_torn) return false;
  if (!std::exchange(barrier_->is_judged, true)) note_cut_pairs();
  for (const auto& [ranks, pair] : cut_pairs_) {
    const auto [low, high] = ranks;
    if (pair.times < 2 || !view_.workers[low].is_live() || !view_.workers[high].is_live()) continue;
    if (now_ms_ - pair.since_ms < settings_.heartbeat_timeout_ms) return true;
    if (pair.times == 2) continue;
    const uint32_t lost = missed_workers(low) > missed_workers(high) ? low : high;
    const uint32_t other = lost == low ? high : low;
    const std::string how = fmt::format(
        "it and worker {} could not connect to each other for {:.1f} s, although the scheduler reaches both; check the "
        "network and firewalls between these hosts",
        other, static_cast<double>(now_ms_ - pair.since_ms) / 1000.0);
    std::erase_if(cut_pairs_,
                  [lost](const auto& entry) { return entry.first.first == lost || entry.first.second == lost; });
    lose(*live(Member{Role::kWorker, lost}), {.how = how, .is_reachable = true}, out);
    return true;
  }
  return false;
}

}  // namespace dtrain::sync::membership
