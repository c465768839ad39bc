#include "sync/machine.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"

namespace dtrain::sync {
namespace {

std::vector<Group> own_groups(uint32_t workers) {
  std::vector<Group> groups(workers);
  std::iota(groups.begin(), groups.end(), 0);
  return groups;
}

}  // namespace

Policy bsp(uint32_t workers, uint32_t backup) {
  return {.group_of = std::vector<Group>(workers, 0), .backup = backup};
}
Policy asp(uint32_t workers) {
  return {.group_of = own_groups(workers)};
}
Policy ssp(uint32_t workers, Step lead_max) {
  return {.group_of = own_groups(workers), .lead_max = lead_max};
}
Policy gsp(std::vector<Group> group_of, std::optional<Step> lead_max) {
  return {.group_of = std::move(group_of), .lead_max = lead_max, .snapshots = true};
}

Group group_count(const Policy& policy) {
  const auto& groups = policy.group_of;
  return groups.empty() ? 0 : *std::max_element(groups.begin(), groups.end()) + 1;
}

bool has_same_weights(const Policy& policy) {
  const auto& groups = policy.group_of;
  return policy.backup == 0 && std::adjacent_find(groups.begin(), groups.end(), std::not_equal_to<>()) == groups.end();
}

Machine::Machine(Policy policy, uint64_t version, const std::vector<Step>& rounds)
    : policy_(std::move(policy)), version_(version) {
  const auto& group_of = policy_.group_of;
  const Group groups = group_count(policy_);
  DT_CHECK(rounds.empty() || rounds.size() == groups, "{} rounds for {} groups", rounds.size(), groups);
  groups_.resize(groups);
  for (Group g = 0; g < groups; g++) {
    groups_[g].round = groups_[g].open = rounds.empty() ? version : rounds[g];
    groups_[g].base_version = version;
  }
  for (const Group group : group_of) {
    workers_.push_back({.group = group, .next = groups_[group].round});
    groups_[group].live++;
  }
  by_group_ = own_groups(static_cast<uint32_t>(group_of.size()));
  std::stable_sort(by_group_.begin(), by_group_.end(), [&](Worker a, Worker b) { return group_of[a] < group_of[b]; });
  size_t end = 0;
  for (Group g = 0; g < groups; g++) {
    groups_[g].begin = groups_[g].search_from = end;
    groups_[g].end = end += groups_[g].live;
    if (policy_.lead_max && groups_[g].live > 0) rounds_.emplace(groups_[g].round, g);
  }
}

void Machine::on(const Event& event, std::vector<Effect>& out) {
  struct Visitor {
    Machine& machine;
    std::vector<Effect>& out;
    void operator()(const Push& push) const { machine.on_push(push, out); }
    void operator()(const Pull& pull) const { machine.on_pull(pull, out); }
    void operator()(const Refresh& refresh) const { machine.on_refresh(refresh, out); }
    void operator()(const Join& join) const { machine.on_join(join, out); }
    void operator()(const Leave& leave) const { machine.on_leave(leave, out); }
  };
  std::visit(Visitor{*this, out}, event);
  open_held(out);
}

Effect Machine::preview(const Push& push) const {
  if (push.worker >= workers_.size()) return Reject{push.worker, "push of an unknown worker"};
  const WorkerState& own = workers_[push.worker];
  // The worker may have left, but a push that has already been counted is not an error: the network may duplicate a
  // push that the worker sent before it left.
  if (push.step < own.next) return Drop{push.worker, push.step};
  if (!own.live) return Reject{push.worker, "push of a worker that left"};
  const GroupState& group = groups_[own.group];
  if (push.step > group.open) return Reject{push.worker, "push of a future step"};
  if (push.step < group.round) return Late{push.worker, push.step};
  return Add{push.worker, own.group};
}

void Machine::on_push(const Push& push, std::vector<Effect>& out) {
  const Effect preview = this->preview(push);
  out.push_back(preview);
  if (std::holds_alternative<Reject>(preview) || std::holds_alternative<Drop>(preview)) return;
  WorkerState& own = workers_[push.worker];
  own.next = push.step + 1;
  if (std::holds_alternative<Late>(preview)) return;
  groups_[own.group].added++;
  groups_[own.group].present++;
  close_round(own.group, out);
}

void Machine::on_pull(const Pull& pull, std::vector<Effect>& out) {
  if (const char* why = objection(pull.worker)) return out.push_back(Reject{pull.worker, why});
  WorkerState& own = workers_[pull.worker];
  // A pull of a step after the worker's next one could never be answered: it would wait for the worker's own gradient.
  if (pull.step > own.next) return out.push_back(Reject{pull.worker, "pull of a future step"});
  GroupState& group = groups_[own.group];
  if (pull.step <= group.open) return answer(pull.worker, out);
  if (!own.parked) group.parked.push_back(pull.worker);  // a pull repeated after a reconnect keeps its place
  own.parked = std::max(own.parked.value_or(0), pull.step);
  const bool waits_for_own_round = pull.step > group.round;
  out.push_back(Park{pull.worker, first_missing(waits_for_own_round ? own.group : rounds_.begin()->second)});
}

void Machine::on_refresh(const Refresh& refresh, std::vector<Effect>& out) {
  if (const char* why = objection(refresh.worker)) return out.push_back(Reject{refresh.worker, why});
  const WorkerState& own = workers_[refresh.worker];
  const Group group = own.group;
  GroupState& state = groups_[group];
  if (std::max(refresh.step, own.next) > state.open)
    return out.push_back(Reject{refresh.worker, "refresh in the middle of a step"});
  // A refresh takes a new snapshot at most once per round, because all members must get the same weights. A repeated
  // Refresh that arrives after the members have continued with a later round takes none.
  if (policy_.snapshots && refresh.step == state.open && !std::exchange(state.is_refreshed, true) &&
      state.base_version < version_) {
    keep(group, out);
  }
  answer(refresh.worker, out);
}

void Machine::on_join(const Join& join, std::vector<Effect>& out) {
  if (join.worker >= workers_.size()) return out.push_back(Reject{join.worker, "join of an unknown worker"});
  WorkerState& own = workers_[join.worker];
  if (own.live) return out.push_back(Reject{join.worker, "join of a worker that takes part"});
  if (join.step < groups_[own.group].round) return out.push_back(Reject{join.worker, "join at a step that is over"});
  own.next = std::max(own.next, join.step);
  set_live(join.worker, true);
  close_round(own.group, out);
}

void Machine::on_leave(const Leave& leave, std::vector<Effect>& out) {
  if (leave.worker >= workers_.size() || !workers_[leave.worker].live) {
    return out.push_back(Reject{leave.worker, "leave of a worker that does not take part"});
  }
  WorkerState& own = workers_[leave.worker];
  own.parked.reset();
  std::erase(groups_[own.group].parked, leave.worker);
  set_live(leave.worker, false);
  close_round(own.group, out);
}

void Machine::set_live(Worker worker, bool live) {
  WorkerState& own = workers_[worker];
  GroupState& state = groups_[own.group];
  const bool is_present = own.next > state.round;
  own.live = live;
  if (live) {
    if (policy_.lead_max && state.live == 0) rounds_.emplace(state.round, own.group);
    state.live++;
    state.present += is_present ? 1 : 0;
    if (is_present) state.early.push_back(worker);
    state.search_from = state.begin;
  } else {
    state.live--;
    state.present -= is_present ? 1 : 0;
    std::erase(state.early, worker);
    if (policy_.lead_max && state.live == 0) rounds_.erase({state.round, own.group});
  }
}

void Machine::close_round(Group group, std::vector<Effect>& out) {
  GroupState& state = groups_[group];
  if (state.live - state.present > policy_.backup) return;
  const Step before = state.round;
  if (state.added > 0) {
    out.push_back(Apply{group, version_ - state.base_version + 1});
    state.base_version = ++version_;
    state.added = 0;
    move_to(group, state.round + 1);
  }
  // If the round waits for no member, all remaining members begin at a later step.
  if (state.live > 0 && state.present == state.live) {
    Step next = workers_[state.early.front()].next;
    for (const Worker worker : state.early) next = std::min(next, workers_[worker].next);
    move_to(group, next);
  }
  if (state.round > before) open_round(group, out);
}

void Machine::move_to(Group group, Step round) {
  GroupState& state = groups_[group];
  held_.erase({state.round, group});
  if (rounds_.erase({state.round, group}) > 0) rounds_.emplace(round, group);
  state.round = round;
  state.is_refreshed = false;
  state.search_from = state.begin;
  std::erase_if(state.early, [&](Worker worker) { return workers_[worker].next <= round; });
  state.present = static_cast<uint32_t>(state.early.size());
}

void Machine::open_round(Group group, std::vector<Effect>& out) {
  GroupState& state = groups_[group];
  if (!within_bound(state.round)) {
    held_.emplace(state.round, group);
    return;
  }
  state.open = state.round;
  if (policy_.snapshots) keep(group, out);
  std::erase_if(state.parked, [&](Worker worker) {
    if (*workers_[worker].parked > state.open) return false;
    workers_[worker].parked.reset();
    answer(worker, out);
    return true;
  });
}

void Machine::open_held(std::vector<Effect>& out) {
  while (!held_.empty() && within_bound(held_.begin()->first)) {
    const Group group = held_.begin()->second;
    held_.erase(held_.begin());
    open_round(group, out);
  }
}

void Machine::keep(Group group, std::vector<Effect>& out) {
  groups_[group].base_version = version_;
  out.push_back(Keep{group});
}

void Machine::answer(Worker worker, std::vector<Effect>& out) {
  const Group group = workers_[worker].group;
  if (!policy_.snapshots) {
    const auto* before = out.empty() ? nullptr : std::get_if<Answer>(&out.back());
    if (before == nullptr || before->group != group) keep(group, out);
  }
  out.push_back(Answer{worker, group, groups_[group].open});
}

const char* Machine::objection(Worker worker) const {
  if (worker >= workers_.size()) return "pull of an unknown worker";
  if (!workers_[worker].live) return "pull of a worker that left";
  return nullptr;
}

bool Machine::is_missing(Worker worker) const {
  const WorkerState& own = workers_[worker];
  return own.live && own.next <= groups_[own.group].round;
}

bool Machine::within_bound(Step round) const {
  if (!policy_.lead_max || round <= *policy_.lead_max || rounds_.empty()) return true;
  return rounds_.begin()->first >= round - *policy_.lead_max;
}

Worker Machine::first_missing(Group group) {
  GroupState& state = groups_[group];
  while (state.search_from < state.end && !is_missing(by_group_[state.search_from])) state.search_from++;
  DT_CHECK(state.search_from < state.end, "round {} of group {} is complete, so no worker is missing", state.round,
           group);
  return by_group_[state.search_from];
}

std::vector<Worker> Machine::missing(const Pull& pull) const {
  std::vector<Worker> missing;
  if (pull.worker >= workers_.size()) return missing;
  const Group own = workers_[pull.worker].group;
  const GroupState& state = groups_[own];
  if (pull.step <= state.open) return missing;
  const auto holds_back = [&](const WorkerState& other) {
    if (pull.step > state.round) return other.group == own;
    return groups_[other.group].round < state.round - *policy_.lead_max;
  };
  for (Worker w = 0; w < workers_.size(); w++) {
    if (is_missing(w) && holds_back(workers_[w])) missing.push_back(w);
  }
  return missing;
}

}  // namespace dtrain::sync
