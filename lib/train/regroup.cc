#include "train/regroup.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "job/spec/job_plan.h"
#include "sync/grouping.h"

namespace dtrain::train {
namespace {

using Groups = std::vector<sync::Group>;

// Renumbers the groups in the order of their first members, so that equal partitions get equal numbers.
Groups in_order(const Groups& group_of) {
  std::map<sync::Group, sync::Group> numbers;
  Groups ordered;
  for (const sync::Group group : group_of) {
    ordered.push_back(numbers.try_emplace(group, static_cast<sync::Group>(numbers.size())).first->second);
  }
  return ordered;
}

// Example: "#0 #2 (31.5 to 32.0 samples/s), #1 (10.4 samples/s)". Workers are written as in a groups file.
std::string text(const Groups& group_of, const std::vector<double>& speeds) {
  std::vector<std::string> groups;
  for (sync::Group group = 0; std::ranges::find(group_of, group) != group_of.end(); group++) {
    std::vector<std::string> members;
    double slowest = 0, fastest = 0;
    for (size_t rank = 0; rank < group_of.size(); rank++) {
      if (group_of[rank] != group) continue;
      slowest = members.empty() ? speeds[rank] : std::min(slowest, speeds[rank]);
      fastest = std::max(fastest, speeds[rank]);
      members.push_back(fmt::format("#{}", rank));
    }
    const std::string range =
        members.size() == 1 ? fmt::format("{:.1f}", slowest) : fmt::format("{:.1f} to {:.1f}", slowest, fastest);
    groups.push_back(fmt::format("{} ({} samples/s)", fmt::join(members, " "), range));
  }
  return fmt::format("{}", fmt::join(groups, ", "));
}

}  // namespace

Regrouper::Regrouper(RegroupSpec spec, kvstore::GroupedStore* groups, job::Coordinator& coordinator, Log log)
    : spec_(std::move(spec)), groups_(groups), coordinator_(coordinator), log_(std::move(log)) {
  DT_CHECK(spec_.every == 0 || groups_ != nullptr, "the store has no groups to change every {} epochs", spec_.every);
  spec_.policy.group_of = in_order(spec_.policy.group_of);
}

int64_t Regrouper::members() const {
  const Groups& group_of = spec_.policy.group_of;
  return std::ranges::count(group_of, group_of[coordinator_.rank()]);
}

// Every worker receives all speeds, so all compute the same groups independently.
Result<bool> Regrouper::run(double samples_per_s) {
  DT_TRY(const std::vector<job::Speed> all, coordinator_.all_gather("the workers' speeds", job::Speed{samples_per_s}));
  std::vector<double> speeds;
  speeds.reserve(all.size());
  for (const job::Speed& speed : all) speeds.push_back(speed.samples_per_s);
  const bool logs = coordinator_.rank() == 0;
  const auto idle = std::ranges::find_if(speeds, [](double speed) { return !(speed > 0); });
  if (idle != speeds.end()) {
    if (logs) log_.info("Groups stay: worker {} has made no step in this epoch", idle - speeds.begin());
    return false;
  }
  DT_TRY(const sync::Grouping grouping, sync::group_by_speed(speeds, {}), "grouping the workers again");
  sync::Policy policy = spec_.policy;
  policy.group_of = in_order(grouping.group_of);
  const bool stay = policy.group_of == spec_.policy.group_of;
  if (logs) log_.info("{}: {}", stay ? "Groups stay" : "New groups", text(policy.group_of, speeds));
  if (stay) return false;
  DT_TRY_VOID(hand_out(policy));
  spec_.policy = std::move(policy);
  return true;
}

// Rank 0 enters the meeting only after the servers know the groups, so no worker begins a step before that.
Result<> Regrouper::hand_out(const sync::Policy& policy) {
  job::NewGroups told;
  if (coordinator_.rank() == 0) {
    DT_TRY(told.next_step, groups_->regroup(policy.group_of), "sending the new groups to the servers");
  }
  DT_TRY(const std::vector<job::NewGroups> all,
         coordinator_.all_gather("the new groups", told, job::stop_sets(policy)));
  if (all.front().next_step > 0) groups_->set_next_step(all.front().next_step);
  return {};
}

}  // namespace dtrain::train
