// Connections between workers and servers that are cut although the scheduler hears both ends.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "sync/membership.h"

namespace dtrain::sync::membership {

void Machine::handle(const LinksLost& event, Out&) {
  Process* process = known(event.incarnation);
  if (process == nullptr || process->join.role != Role::kWorker || !started()) return;
  std::map<uint32_t, CutLink> links;
  for (const LostLink& link : event.links) {
    if (link.server < settings_.servers) links[link.server] = {now_ms_ - std::min(now_ms_, link.lost_ms), link.why};
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

}  // namespace dtrain::sync::membership
