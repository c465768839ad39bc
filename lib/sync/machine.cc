#include "sync/machine.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace dtrain::sync {
namespace {

std::vector<Group> own_groups(uint32_t workers) {
  std::vector<Group> groups(workers);
  std::iota(groups.begin(), groups.end(), 0);
  return groups;
}

}  // namespace

Policy bsp(uint32_t workers) {
  return {.group_of = std::vector<Group>(workers, 0)};
}
Policy asp(uint32_t workers) {
  return {.group_of = own_groups(workers)};
}
Policy ssp(uint32_t workers, Step lead_max) {
  return {.group_of = own_groups(workers), .lead_max = lead_max};
}
Policy gsp(std::vector<Group> group_of) {
  return {.group_of = std::move(group_of), .snapshots = true};
}

Machine::Machine(Policy policy, Step begin) : policy_(std::move(policy)), version_(begin) {
  Group groups = 0;
  for (const Group group : policy_.group_of) {
    members_.push_back({.group = group, .live = true, .next = begin});
    groups = std::max(groups, group + 1);
  }
  groups_.assign(groups, {.round = begin, .added = 0, .last_update = begin});
}

void Machine::on(const Event& event, std::vector<Effect>& out) {
  struct Visitor {
    Machine& machine;
    std::vector<Effect>& out;
    void operator()(const Push& push) const { machine.on_push(push, out); }
    void operator()(const Pull& pull) const { machine.on_pull(pull, out); }
    void operator()(const Join& join) const { machine.on_join(join, out); }
    void operator()(const Leave& leave) const { machine.on_leave(leave, out); }
  };
  std::visit(Visitor{*this, out}, event);
}

Effect Machine::verdict(const Push& push) const {
  if (push.worker >= members_.size()) return Reject{push.worker, "push of an unknown worker"};
  const Member& member = members_[push.worker];
  // First of all, for it is no mistake: the network may deliver again what the worker sent before it left.
  if (push.step < member.next) return Drop{push.worker, push.step};
  if (!member.live) return Reject{push.worker, "push of a worker that left"};
  if (push.step != groups_[member.group].round) return Reject{push.worker, "push of a future step"};
  return Add{push.worker, member.group};
}

void Machine::on_push(const Push& push, std::vector<Effect>& out) {
  out.push_back(verdict(push));
  if (!std::holds_alternative<Add>(out.back())) return;
  Member& member = members_[push.worker];
  member.next++;
  groups_[member.group].added++;
  if (close_round(member.group, out)) answer_parked(out);
}

void Machine::on_pull(const Pull& pull, std::vector<Effect>& out) {
  if (pull.worker >= members_.size()) return out.push_back(Reject{pull.worker, "pull of an unknown worker"});
  if (!is_live(pull.worker)) return out.push_back(Reject{pull.worker, "pull of a worker that left"});
  // It would wait for a gradient of its own.
  if (pull.step > members_[pull.worker].next) return out.push_back(Reject{pull.worker, "pull of a future step"});
  if (may_begin(pull, slowest())) return answer(pull, out);
  const auto earlier =
      std::find_if(parked_.begin(), parked_.end(), [&](const Pull& p) { return p.worker == pull.worker; });
  if (earlier == parked_.end()) {
    parked_.push_back(pull);
  } else {
    earlier->step = std::max(earlier->step, pull.step);  // asked again, after a reconnect: it keeps its place
  }
  out.push_back(Park{pull.worker, missing(pull).front()});
}

void Machine::on_join(const Join& join, std::vector<Effect>& out) {
  if (join.worker >= members_.size()) return out.push_back(Reject{join.worker, "join of an unknown worker"});
  Member& member = members_[join.worker];
  if (member.live) return out.push_back(Reject{join.worker, "join of a worker that takes part"});
  if (join.step < groups_[member.group].round) return out.push_back(Reject{join.worker, "join at a step that is over"});
  member.live = true;
  member.next = std::max(member.next, join.step);
  close_round(member.group, out);
}

void Machine::on_leave(const Leave& leave, std::vector<Effect>& out) {
  if (!is_live(leave.worker)) return out.push_back(Reject{leave.worker, "leave of a worker that does not take part"});
  members_[leave.worker].live = false;
  std::erase_if(parked_, [&](const Pull& pull) { return pull.worker == leave.worker; });
  close_round(members_[leave.worker].group, out);
  answer_parked(out);  // in any case: it may have been the slowest one
}

bool Machine::close_round(Group group, std::vector<Effect>& out) {
  if (!round_is_complete(group)) return false;
  GroupState& state = groups_[group];
  if (state.added > 0) apply(group, out);
  if (!round_is_complete(group)) return true;
  // All who are left take part from a later step on only.
  std::optional<Step> next;
  for (const Member& member : members_) {
    if (member.live && member.group == group) next = std::min(next.value_or(member.next), member.next);
  }
  state.round = next.value_or(state.round);
  return true;
}

void Machine::apply(Group group, std::vector<Effect>& out) {
  GroupState& state = groups_[group];
  out.push_back(Apply{group, version_ - state.last_update + 1});
  if (policy_.snapshots) out.push_back(Keep{group});
  state.last_update = ++version_;
  state.added = 0;
  state.round++;
}

void Machine::answer_parked(std::vector<Effect>& out) {
  const Step slowest = this->slowest();  // answers don't change it, so one pass is enough
  std::erase_if(parked_, [&](const Pull& pull) {
    if (!may_begin(pull, slowest)) return false;
    answer(pull, out);
    return true;
  });
}

void Machine::answer(const Pull& pull, std::vector<Effect>& out) const {
  const Group group = members_[pull.worker].group;
  if (!policy_.snapshots) {
    const auto* before = out.empty() ? nullptr : std::get_if<Answer>(&out.back());
    if (before == nullptr || before->group != group) out.push_back(Keep{group});
  }
  out.push_back(Answer{pull.worker, group, pull.step});
}

bool Machine::is_missing(Worker worker) const {
  const Member& member = members_[worker];
  return member.live && member.next <= groups_[member.group].round;
}

bool Machine::round_is_complete(Group group) const {
  for (Worker w = 0; w < members_.size(); w++) {
    if (members_[w].group == group && is_missing(w)) return false;
  }
  return true;
}

Step Machine::slowest() const {
  Step slowest = std::numeric_limits<Step>::max();
  for (const Member& member : members_) {
    if (member.live) slowest = std::min(slowest, groups_[member.group].round);
  }
  return slowest;
}

bool Machine::may_begin(const Pull& pull, Step slowest) const {
  if (groups_[members_[pull.worker].group].round < pull.step) return false;
  return !policy_.lead_max || pull.step <= *policy_.lead_max || slowest >= pull.step - *policy_.lead_max;
}

std::vector<Worker> Machine::missing(const Pull& pull) const {
  std::vector<Worker> missing;
  if (pull.worker >= members_.size()) return missing;
  const Group own = members_[pull.worker].group;
  for (Worker w = 0; w < members_.size(); w++) {
    const Step round = groups_[members_[w].group].round;
    const bool of_own_round = members_[w].group == own && round < pull.step;
    const bool too_slow = policy_.lead_max && pull.step > *policy_.lead_max && round < pull.step - *policy_.lead_max;
    if (is_missing(w) && (of_own_round || too_slow)) missing.push_back(w);
  }
  return missing;
}

}  // namespace dtrain::sync
