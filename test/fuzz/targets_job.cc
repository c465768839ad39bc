#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "fuzz/refusal.h"
#include "fuzz/targets.h"
#include "job/process/host_file.h"
#include "job/spec/groups.h"

namespace dtrain::fuzz {

using namespace dtrain::job;

namespace {

// Whether ssh takes the text as the name of a host or a user, and not as an option.
bool is_safe_argument(std::string_view text) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%";  // "%" in fe80::1%eth0
  return !text.empty() && text.front() != '-' && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

void check_lines(const HostFile& file) {
  DT_CHECK(!file.lines.empty(), "a host file without hosts is read");
  for (const HostLine& line : file.lines) {
    DT_CHECK(is_safe_argument(line.host) && (line.user.empty() || is_safe_argument(line.user)),
             "line {}: ssh may take the host or the user as something else", line.number);
    DT_CHECK(line.ssh_port >= 0 && line.ssh_port <= 65535, "line {}: the port is {}", line.number, line.ssh_port);
    DT_CHECK(line.slots.value_or(1) >= 1, "line {}: a host has {} slots", line.number, *line.slots);
  }
  DT_CHECK(ssh_addresses(file).size() <= file.lines.size(), "there are more hosts than lines");
}

struct Places {
  int64_t servers = 0, workers = 0;  // that the lines of a host allow
  int64_t both = 0;                  // at most so many together; the numbers are cut at the number of processes
};

Places places_of(const HostFile& file, const SshAddress& ssh, int64_t most) {
  Places places;
  for (const HostLine& line : file.lines) {
    if (line.host != ssh.host || line.ssh_port != ssh.port || line.user != ssh.user) continue;
    const int64_t slots = std::min(line.slots.value_or(most), most);
    places.both += slots;
    if (line.role != Role::kWorker) places.servers += slots;
    if (line.role != Role::kServer) places.workers += slots;
  }
  return places;
}

void check_assignment(const HostFile& file, const HostAssignment& assignment, const AssignmentOptions& options) {
  DT_CHECK(std::ssize(assignment.servers) == options.servers && std::ssize(assignment.workers) == options.workers,
           "{} servers and {} workers have places", assignment.servers.size(), assignment.workers.size());
  std::map<std::pair<std::string, int64_t>, std::set<int64_t>> gpus;
  for (const ProcessSlot& slot : assignment.workers) {
    DT_CHECK(slot.gpus.parts <= options.workers, "{} parts for {} workers", slot.gpus.parts, options.workers);
    for (const int64_t gpu : slot.gpus.numbers) {
      const bool is_new = gpus[{slot.ssh.host, slot.ssh.port}].insert(gpu).second;
      DT_CHECK(is_new, "two workers have GPU {} of {}", gpu, slot.host);
    }
  }
  for (const SshAddress& ssh : ssh_addresses(file)) {
    const auto here = [&](const ProcessSlot& slot) { return slot.ssh == ssh; };
    const auto servers = std::ranges::count_if(assignment.servers, here);
    const auto workers = std::ranges::count_if(assignment.workers, here);
    const Places places = places_of(file, ssh, options.servers + options.workers);
    DT_CHECK(servers <= places.servers && workers <= places.workers && servers + workers <= places.both,
             "{} has {} servers and {} workers", ssh.host, servers, workers);
  }
}

}  // namespace

bool read_hosts_bytes(std::string_view bytes) {
  const Result<HostFile> file = parse_host_file(bytes, "hosts");
  if (!file) return refused(file.error());
  check_lines(*file);
  for (const HostOrder order : {HostOrder::kSpread, HostOrder::kPack}) {
    for (const AssignmentOptions& options :
         {AssignmentOptions{0, 1, order}, AssignmentOptions{2, 3, order}, AssignmentOptions{1, 40, order}}) {
      const Result<HostAssignment> assignment = assign_hosts(*file, options);
      if (assignment) {
        check_assignment(*file, *assignment, options);
      } else {
        refused(assignment.error());
      }
    }
  }
  return true;
}

bool read_groups_bytes(std::string_view bytes) {
  const std::array<std::vector<WorkerPlace>, 2> jobs = {
      {{{"node1", "10.0.0.1"}, {"node2", "10.0.0.2"}, {"node1", "10.0.0.1"}, {"fe80::1", "fe80::1"}, {"", "10.0.0.9"}},
       {{"node1", ""}, {"node1", ""}, {"node1", ""}, {"node1", ""}}}};
  bool valid = false;
  for (const std::vector<WorkerPlace>& workers : jobs) {
    for (const Ungrouped ungrouped : {Ungrouped::kOwn, Ungrouped::kError}) {
      const Result<std::vector<int64_t>> groups = parse_groups({"groups", std::string(bytes)}, workers, ungrouped);
      if (!groups) {
        refused(groups.error());
        continue;
      }
      DT_CHECK(groups->size() == workers.size(), "{} workers have groups", groups->size());
      const std::string written = format_groups(*groups, workers);
      const Result<std::vector<int64_t>> again = parse_groups({"groups", written}, workers, Ungrouped::kError);
      DT_CHECK(again, "the written groups are refused: {}", again.error().text());
      DT_CHECK(*again == *groups, "the written groups are read as others");
      DT_CHECK(looks_like_groups(written), "the written groups do not look like groups");
      valid = true;
    }
  }
  looks_like_groups(bytes);
  return valid;
}

}  // namespace dtrain::fuzz
