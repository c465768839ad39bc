#include "plan/audit.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/overloaded.h"
#include "sync/event_log.h"

namespace dtrain::plan {
namespace {

constexpr std::string_view kDroppedOld = "push dropped, its round was over";
constexpr std::string_view kDroppedOpen = "push dropped, its round was open";
constexpr std::string_view kLate = "push too late for its round";
constexpr std::string_view kJumped = "late worker jumped over a step";
constexpr std::string_view kOldPull = "pull of a round that was over";
constexpr std::string_view kParked = "pull parked for its own round";
constexpr std::string_view kParkedByBound = "pull parked by the bound";
constexpr std::string_view kAnsweredAtOnce = "pull answered at once";
constexpr std::string_view kAskedAgain = "pull asked again while parked";
constexpr std::string_view kSeveralOpened = "one event opened rounds of several groups";
constexpr std::string_view kClosedByLeave = "round closed by a leave";
constexpr std::string_view kOpenedByLeave = "round opened by a leave of another group";
constexpr std::string_view kLeaverHadAdded = "left with its gradient in the open round";
constexpr std::string_view kLeaverWasParked = "left while its pull was parked";
constexpr std::string_view kEmptyGroup = "left as the last of its group";
constexpr std::string_view kLateAfterLeave = "message of a worker that left";
constexpr std::string_view kOldProcess = "message of a process that was replaced";
constexpr std::string_view kCrash = "crash";
constexpr std::string_view kRejoined = "joined";
constexpr std::string_view kRejoinedOpen = "joined, its gradient still in the open round";
constexpr std::string_view kJoinedAhead = "joined for a later round";
constexpr std::string_view kJoinedBehind = "joined behind the bound";
constexpr std::string_view kRefreshed = "refresh brought newer weights";
constexpr std::string_view kRefreshedLater = "refresh while others had gone on";
constexpr std::string_view kOldRefresh = "refresh came again in a later step";
constexpr std::string_view kRequestLost = "request lost";
constexpr std::string_view kRequestAgain = "request sent again";
constexpr std::string_view kAnswerLost = "answer lost";
constexpr std::string_view kAnswerAgain = "answer came again";
constexpr std::string_view kPaths[] = {
    kDroppedOld,     kDroppedOpen,     kLate,         kJumped,         kOldPull,       kParked,
    kParkedByBound,  kAnsweredAtOnce,  kAskedAgain,   kSeveralOpened,  kClosedByLeave, kOpenedByLeave,
    kLeaverHadAdded, kLeaverWasParked, kEmptyGroup,   kLateAfterLeave, kOldProcess,    kCrash,
    kRejoined,       kRejoinedOpen,    kJoinedAhead,  kJoinedBehind,   kRefreshed,     kRefreshedLater,
    kOldRefresh,     kRequestLost,     kRequestAgain, kAnswerLost,     kAnswerAgain};

sync::Worker worker_of(const sync::Event& event) {
  return std::visit([](const auto& e) { return e.worker; }, event);
}

}  // namespace

Audit::Audit(const Setting& setting) : policy_(setting.policy), begun_(setting.policy.group_of.size()) {
  for (const std::string_view path : kPaths) paths[path] = 0;
  const auto& groups = policy_.group_of;
  Books books;
  for (const sync::Group group : groups) books.members.emplace_back().group = group;
  books.contents.assign(groups.size(), 0);
  books.taken.assign(groups.size(), 0);
  books.computes_with.assign(groups.size(), 0);
  books.rounds.resize(sync::group_count(policy_));
  for (Round& round : books.rounds) round.kept = round.promised = books.contents;
  books_.assign(setting.servers, books);
  for (uint32_t s = 0; s < setting.servers; s++) append_begin({0, s}, policy_, 0, {}, event_log);
}

void Audit::require(bool holds, std::string_view what) {
  if (!holds) broken.push_back(fmt::format("event {}: {}", events_, what));
}

Audit::Gradient& Audit::gradient(Books& books, sync::Worker worker, sync::Step step) {
  auto& gradients = books.members[worker].gradients;
  if (gradients.size() <= step) gradients.resize(step + 1, Gradient::kNone);
  return gradients[step];
}

bool Audit::is_missing(const Books& books, sync::Worker worker) const {
  const Member& member = books.members[worker];
  return member.live && member.next <= books.rounds[member.group].step;
}

uint32_t Audit::missing(const Books& books, sync::Group group) const {
  uint32_t count = 0;
  for (sync::Worker w = 0; w < books.members.size(); w++) {
    if (books.members[w].group == group && is_missing(books, w)) count++;
  }
  return count;
}

std::optional<sync::Step> Audit::slowest(const Books& books) const {
  std::optional<sync::Step> slowest;
  for (const Member& member : books.members) {
    if (!member.live) continue;
    slowest = std::min(slowest.value_or(books.rounds[member.group].step), books.rounds[member.group].step);
  }
  return slowest;
}

void Audit::on_event(double /*ms*/, uint32_t server, const sync::Machine& machine, const sync::Event& event,
                     std::span<const sync::Effect> effects) {
  append_event({0, server}, event, effects, event_log);
  events_++;
  Books& books = books_[server];
  before(books, event);
  std::optional<sync::Group> opened;
  for (const sync::Effect& effect : effects) {
    std::visit(Overloaded{[&](const sync::Add&) { on_push(books, std::get<sync::Push>(event), effect); },
                          [&](const sync::Drop&) { on_push(books, std::get<sync::Push>(event), effect); },
                          [&](const sync::Late&) { on_push(books, std::get<sync::Push>(event), effect); },
                          [&](const sync::Apply& apply) { on_apply(books, apply, event); },
                          [&](const sync::Keep& keep) {
                            if (opened && *opened != keep.group) note(kSeveralOpened);
                            opened = keep.group;
                            on_keep(books, keep, event);
                          },
                          [&](const sync::Answer& answer) { on_answer(books, answer, event); },
                          [&](const sync::Park& park) { on_park(books, park, event); },
                          [&](const sync::Reject& reject) { on_reject(books, reject, event); }},
               effect);
  }
  check(books, machine);
}

// Changes that follow from the event alone.
void Audit::before(Books& books, const sync::Event& event) {
  Member& member = books.members[worker_of(event)];
  const Round& round = books.rounds[member.group];
  const bool is_in_round = std::find(round.added.begin(), round.added.end(), worker_of(event)) != round.added.end();
  if (const auto* join = std::get_if<sync::Join>(&event)) {
    note(is_in_round ? kRejoinedOpen : kRejoined);
    const sync::Step others = slowest(books).value_or(0);
    member.live = true;
    member.next = std::max(member.next, join->step);
    if (!is_in_round && member.next > round.step) note(kJoinedAhead);
    go_on(books, member.group);
    if (policy_.lead_max && round.step < others) note(kJoinedBehind);
  } else if (std::holds_alternative<sync::Leave>(event)) {
    if (is_in_round) note(kLeaverHadAdded);
    if (member.parked) note(kLeaverWasParked);
    member.live = false;
    member.parked.reset();
    const bool is_empty = std::none_of(books.members.begin(), books.members.end(),
                                       [&](const Member& m) { return m.live && m.group == member.group; });
    if (is_empty) note(kEmptyGroup);
    go_on(books, member.group);
  }
  open_rounds(books);
}

// A round is over if it has no gradient and all members of its group start with a later step.
void Audit::go_on(Books& books, sync::Group group) {
  Round& round = books.rounds[group];
  if (!round.added.empty() || missing(books, group) > 0) return;
  std::optional<sync::Step> next;
  for (const Member& member : books.members) {
    if (member.live && member.group == group) next = std::min(next.value_or(member.next), member.next);
  }
  if (next) round.step = *next;
}

void Audit::open_rounds(Books& books) {
  const std::optional<sync::Step> slowest = this->slowest(books);
  for (Round& round : books.rounds) {
    const bool is_held = policy_.lead_max && slowest && round.step > *slowest + *policy_.lead_max;
    if (is_held || round.open == round.step) continue;
    round.open = round.step;
    round.promised = books.contents;
  }
}

void Audit::on_push(Books& books, const sync::Push& push, const sync::Effect& effect) {
  Member& member = books.members[push.worker];
  Round& round = books.rounds[member.group];
  Gradient& gradient = this->gradient(books, push.worker, push.step);
  if (std::holds_alternative<sync::Drop>(effect)) {
    require(gradient != Gradient::kNone, "a push was dropped that never came before");
    return note(gradient == Gradient::kAdded ? kDroppedOpen : kDroppedOld);
  }
  require(member.live, "a gradient was taken of a worker that left");
  require(gradient == Gradient::kNone, "a gradient was taken twice");
  member.next = push.step + 1;
  if (std::holds_alternative<sync::Late>(effect)) {
    require(policy_.backup > 0 && push.step < round.step, "a gradient was lost that its round could have had");
    gradient = Gradient::kLate;
    return note(kLate);
  }
  require(push.step == round.step, "a gradient of another step went into a round");
  gradient = Gradient::kAdded;
  round.added.push_back(push.worker);
  if (!policy_.snapshots) return;
  const bool is_first = round.added.size() == 1;
  if (is_first) round.computed_with = books.computes_with[push.worker];
  require(round.computed_with == books.computes_with[push.worker],
          "members of a group computed with different weights");
}

void Audit::on_apply(Books& books, const sync::Apply& apply, const sync::Event& event) {
  Round& round = books.rounds[apply.group];
  require(!round.added.empty(), "a round without gradients was applied");
  require(missing(books, apply.group) <= policy_.backup, "a round was applied before its last gradient came");
  require(apply.staleness == books.version - round.seen + 1, "the staleness is not the number of updates in between");
  if (std::holds_alternative<sync::Leave>(event)) note(kClosedByLeave);
  for (const sync::Worker w : round.added) {
    gradient(books, w, round.step) = Gradient::kApplied;
    books.contents[w] = round.step + 1;
  }
  round.added.clear();
  round.step++;
  round.seen = ++books.version;
  go_on(books, apply.group);
  open_rounds(books);
}

void Audit::on_keep(Books& books, const sync::Keep& keep, const sync::Event& event) {
  Round& round = books.rounds[keep.group];
  if (policy_.snapshots && std::holds_alternative<sync::Refresh>(event)) note(kRefreshed);
  round.seen = round.kept_version = books.version;
  round.kept = books.contents;
}

void Audit::on_answer(Books& books, const sync::Answer& answer, const sync::Event& event) {
  Member& member = books.members[answer.worker];
  const Round& round = books.rounds[answer.group];
  require(member.live, "a worker that left was answered");
  require(member.group == answer.group, "an answer was of another group");
  require(answer.step <= round.open, "a round was opened too early");
  require(answer.step >= round.open, "an answer was for a round before the one that is open");
  const auto* pull = std::get_if<sync::Pull>(&event);
  const bool is_asker = worker_of(event) == answer.worker && !member.parked;
  if (is_asker && pull != nullptr) {
    note(kAnsweredAtOnce);
    require(pull->step <= answer.step, "a pull was answered before its round");
    if (pull->step < answer.step && member.next <= pull->step) note(policy_.backup > 0 ? kJumped : kOldPull);
    if (pull->step < answer.step && member.next > pull->step) note(kOldPull);
  }
  if (const auto* refresh = std::get_if<sync::Refresh>(&event)) {
    if (refresh->step < answer.step) note(kOldRefresh);
    if (round.kept_version < books.version) note(kRefreshedLater);
  }
  if (std::holds_alternative<sync::Leave>(event) && books.members[worker_of(event)].group != answer.group)
    note(kOpenedByLeave);
  if (member.parked && *member.parked <= answer.step) member.parked.reset();
  sent_.push_back({answer.worker, round.kept_version});
  check_contents(books, answer);
}

// Checks that the answer contains what had arrived when the round opened: everything of the own group and, of the
// others, what the bound promises.
void Audit::check_contents(const Books& books, const sync::Answer& answer) {
  const Round& round = books.rounds[answer.group];
  const sync::Step lead = std::min(policy_.lead_max.value_or(answer.step), answer.step);
  for (sync::Worker w = 0; w < books.members.size(); w++) {
    const bool own = policy_.group_of[w] == answer.group;
    const sync::Step bound = own ? answer.step : answer.step - lead;
    require(round.kept[w] >= std::min(round.promised[w], bound), "an answer lacks a gradient that it promises");
    if (own && policy_.snapshots) require(round.kept[w] <= answer.step, "a snapshot has a gradient that came later");
  }
}

void Audit::on_park(Books& books, const sync::Park& park, const sync::Event& event) {
  Member& member = books.members[park.worker];
  const sync::Step step = std::get<sync::Pull>(event).step;
  if (member.parked) note(kAskedAgain);
  member.parked = std::max(member.parked.value_or(0), step);
  note(step > books.rounds[member.group].step ? kParked : kParkedByBound);
  require(books.members[park.waits_for].live, "a pull waits for a worker that left");
  require(is_missing(books, park.waits_for), "a pull waits for a worker that has done its part");
}

void Audit::on_reject(Books& books, const sync::Reject& reject, const sync::Event& event) {
  if (!books.members[reject.worker].live) return note(kLateAfterLeave);
  const auto* refresh = std::get_if<sync::Refresh>(&event);
  const bool is_old = refresh != nullptr && begun_[reject.worker].value_or(0) >= refresh->step;
  require(is_old, "a live worker was rejected");
  note(kOldRefresh);
}

// After each event: the machine agrees with the books, and no worker waits without a reason.
void Audit::check(Books& books, const sync::Machine& machine) {
  require(machine.version() == books.version, "the version is not the number of updates");
  std::optional<sync::Step> least, most;
  for (sync::Worker w = 0; w < books.members.size(); w++) {
    const Member& member = books.members[w];
    const Round& round = books.rounds[member.group];
    require(machine.clock(w) == round.step, "a clock is not the number of rounds that were done");
    if (!member.live) continue;
    least = std::min(least.value_or(round.step), round.step);
    most = std::max(most.value_or(round.step), round.step);
  }
  if (least) spread_max = std::max(spread_max, *most - *least);
  for (sync::Group g = 0; g < books.rounds.size(); g++) {
    const bool is_complete = !books.rounds[g].added.empty() && missing(books, g) <= policy_.backup;
    require(!is_complete, "a complete round was not applied");
  }
  for (sync::Worker w = 0; w < books.members.size(); w++) {
    const Member& member = books.members[w];
    if (!member.parked) continue;
    require(*member.parked > books.rounds[member.group].open, "a pull waits for nobody");
    const std::vector<sync::Worker> waits_for = machine.missing({w, *member.parked});
    require(!waits_for.empty(), "a pull waits and nobody is missing");
    for (const sync::Worker other : waits_for)
      require(is_missing(books, other), "a pull waits for somebody who is not missing");
  }
}

void Audit::on_take(uint32_t server, sync::Worker worker, uint64_t number) {
  require(number < sent_.size() && sent_[number].worker == worker, "a worker took an answer to somebody else");
  books_[server].taken[worker] = sent_[number].version;
}

void Audit::on_begin(double /*ms*/, sync::Worker worker, sync::Step step) {
  for (Books& books : books_) {
    if (const std::optional<sync::Step> before = begun_[worker]) {
      require(step > *before, "a worker began a step twice");
      require(gradient(books, worker, *before) != Gradient::kNone, "a worker went on before its gradient had come");
    }
    const std::optional<sync::Step> slowest = this->slowest(books);
    if (slowest && step > *slowest) lead_max = std::max(lead_max, step - *slowest);
    books.computes_with[worker] = books.taken[worker];
  }
  begun_[worker] = step;
}

void Audit::on_incident(Incident incident, sync::Worker worker) {
  switch (incident) {
    case Incident::kRequestLost: return note(kRequestLost);
    case Incident::kAnswerLost: return note(kAnswerLost);
    case Incident::kRequestAgain: return note(kRequestAgain);
    case Incident::kAnswerAgain: return note(kAnswerAgain);
    case Incident::kOldProcess: return note(kOldProcess);
    case Incident::kCrash: return note(kCrash);
    case Incident::kJoin: begun_[worker].reset(); return;
  }
}

void Audit::finish(const Outcome& outcome) {
  require(outcome.all_finished, "somebody waits for ever");
  for (Books& books : books_) {
    for (const Round& round : books.rounds) require(round.added.empty(), "a gradient was added and never applied");
    uint64_t late = 0, applied = 0;
    for (const Member& member : books.members) {
      late += static_cast<uint64_t>(std::count(member.gradients.begin(), member.gradients.end(), Gradient::kLate));
      applied +=
          static_cast<uint64_t>(std::count(member.gradients.begin(), member.gradients.end(), Gradient::kApplied));
    }
    const bool is_first = &books == books_.data();
    require(!is_first || (late == outcome.late && applied == outcome.applied), "the outcome's counts are wrong");
  }
}

}  // namespace dtrain::plan
