#include "sync/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "base/random.h"
#include "sync/text.h"

namespace dtrain::sync {
namespace {

using Time = uint64_t;  // virtual microseconds

constexpr Time kStepTime = 1000;
constexpr Time kResendAfter = 3000;
constexpr Time kDelayMax = 2000;  // in bad weather; more than a step, so that messages overtake each other
constexpr Time kDelayCalm = 50;

constexpr std::string_view kDroppedOld = "push dropped, its round was over";
constexpr std::string_view kDroppedOpen = "push dropped, its round was open";
constexpr std::string_view kParked = "pull parked";
constexpr std::string_view kAnsweredAtOnce = "pull answered at once";
constexpr std::string_view kAskedAgain = "pull asked again while parked";
constexpr std::string_view kClosedByLeave = "round closed by a leave";
constexpr std::string_view kLeaverHadAdded = "left with its gradient in the open round";
constexpr std::string_view kLateAfterLeave = "message of a worker that left";
constexpr std::string_view kRejoined = "joined again";
constexpr std::string_view kRejoinedOpen = "joined again, its gradient still in the open round";
constexpr std::string_view kAnswerTwice = "answer came twice";
constexpr std::string_view kRequestLost = "request lost";
constexpr std::string_view kAnswerLost = "answer lost";
constexpr std::string_view kPaths[] = {kDroppedOld,    kDroppedOpen,    kParked,         kAnsweredAtOnce, kAskedAgain,
                                       kClosedByLeave, kLeaverHadAdded, kLateAfterLeave, kRejoined,       kRejoinedOpen,
                                       kAnswerTwice,   kRequestLost,    kAnswerLost};

// What the weights contain: of each worker, one past the last step whose gradient was applied.
using Contents = std::vector<Step>;

struct Request {
  Worker worker;
  uint64_t incarnation;
  std::optional<Step> push;
  Step pull;
};

struct SimWorker {
  bool running = true;
  bool live_at_server = true;
  uint64_t incarnation = 0;
  Step awaited = 0;     // step whose weights it waits for
  bool awaits = false;  // else it computes, or is at its end
  Time step_time = kStepTime;
  bool finished = false;
};

class Simulation {
 public:
  Simulation(const Setting& setting, uint64_t seed);
  Outcome run();

 private:
  void at(Time delay, std::function<void()> action);
  bool draw(int percent) { return random_.below(100) < percent; }
  [[nodiscard]] bool calm() const { return now_ >= calm_from_; }
  void note(std::string_view path) { outcome_.paths[path]++; }
  void require(bool holds, std::string_view what);
  // Over the network: maybe late, lost, or twice.
  void deliver(std::string_view path_if_lost, const std::function<void()>& arrive);

  // The workers' side.
  void ask(const Request& request);
  void on_answer(Worker w, uint64_t incarnation, Step step);
  void begin_step(Worker w, Step step);
  void crash(Worker w);
  void rejoin(Worker w);

  // The server's side: what kvstore's shard does, with sets in place of sums.
  void on_request(const Request& request);
  void feed(const Event& event);
  void carry_out(const Event& event, const Effect& effect);
  void on_add(const Add& add, const Event& event);
  void on_apply(const Apply& apply, const Event& event);
  void on_answer_effect(const Answer& answer);
  void check_contents(const Answer& answer, const Contents& contents);

  const Setting setting_;
  RandomStream random_;
  Machine machine_;
  Outcome outcome_;
  Time now_ = 0;
  Time calm_from_;

  struct Action {
    Time time;
    uint64_t order;
    std::function<void()> act;
    bool operator<(const Action& other) const { return std::pair(time, order) > std::pair(other.time, other.order); }
  };
  std::priority_queue<Action> actions_;
  uint64_t order_ = 0;

  std::vector<SimWorker> workers_;
  std::set<std::pair<Worker, Step>> added_;                 // ever
  std::vector<std::vector<std::pair<Worker, Step>>> open_;  // by group: gradients in the accumulator
  std::vector<Contents> kept_;                              // by group
  Contents contents_;
  std::set<Worker> parked_;
};

Simulation::Simulation(const Setting& setting, uint64_t seed)
    : setting_(setting),
      random_(seed, Use::kSimulation),
      machine_(setting.policy),
      calm_from_(setting.steps * kStepTime * 2),
      workers_(setting.policy.group_of.size()),
      contents_(setting.policy.group_of.size(), 0) {
  const auto& groups = setting_.policy.group_of;
  const size_t group_count = groups.empty() ? 0 : *std::max_element(groups.begin(), groups.end()) + 1;
  open_.resize(group_count);
  kept_.assign(group_count, contents_);
  for (const std::string_view path : kPaths) outcome_.paths[path] = 0;
  for (Worker w = 0; w < workers_.size(); w++) {
    if (draw(setting_.slow_percent)) workers_[w].step_time *= 4;
    if (draw(setting_.leave_percent)) at(random_.below(static_cast<int64_t>(calm_from_)), [this, w] { crash(w); });
    at(0, [this, w] { ask({.worker = w, .incarnation = 0, .push = {}, .pull = 0}); });
  }
}

Outcome Simulation::run() {
  // Far past what calm weather needs for all steps one after the other.
  const Time end = calm_from_ + (setting_.steps + 1) * (workers_.size() + 1) * (8 * kStepTime + kResendAfter);
  while (!actions_.empty() && actions_.top().time <= end) {
    const Action next = actions_.top();
    actions_.pop();
    now_ = next.time;
    next.act();
  }
  outcome_.all_finished = std::all_of(workers_.begin(), workers_.end(),
                                      [](const SimWorker& worker) { return worker.finished || !worker.running; });
  for (const auto& open : open_) require(open.empty(), "a gradient was added and never applied");
  outcome_.updates = machine_.version();
  return std::move(outcome_);
}

void Simulation::at(Time delay, std::function<void()> action) {
  actions_.push({now_ + delay, order_++, std::move(action)});
}

void Simulation::require(bool holds, std::string_view what) {
  if (!holds) outcome_.broken.push_back(fmt::format("{} us: {}", now_, what));
}

void Simulation::deliver(std::string_view path_if_lost, const std::function<void()>& arrive) {
  if (calm()) return at(kDelayCalm, arrive);
  if (draw(setting_.loss_percent)) return note(path_if_lost);
  at(1 + random_.below(kDelayMax), arrive);
  if (draw(setting_.duplicate_percent)) at(1 + random_.below(2 * kDelayMax), arrive);
}

void Simulation::ask(const Request& request) {
  SimWorker& worker = workers_[request.worker];
  if (!worker.running || worker.incarnation != request.incarnation) return;
  const bool again = worker.awaits && worker.awaited == request.pull;
  if (again && parked_.contains(request.worker)) note(kAskedAgain);
  worker.awaits = true;
  worker.awaited = request.pull;
  deliver(kRequestLost, [this, request] { on_request(request); });
  at(kResendAfter, [this, request] {
    const SimWorker& w = workers_[request.worker];
    if (w.awaits && w.awaited == request.pull) ask(request);
  });
}

void Simulation::on_answer(Worker w, uint64_t incarnation, Step step) {
  SimWorker& worker = workers_[w];
  if (!worker.running || worker.incarnation != incarnation) return;
  if (!worker.awaits || step < worker.awaited) return note(kAnswerTwice);
  worker.awaits = false;
  if (step < setting_.steps) return begin_step(w, step);
  worker.finished = true;
  worker.live_at_server = false;
  feed(Leave{w});
}

void Simulation::begin_step(Worker w, Step step) {
  for (Worker other = 0; other < workers_.size(); other++) {
    if (!workers_[other].live_at_server) continue;
    const Step clock = machine_.clock(other);
    if (step > clock) outcome_.lead_max = std::max(outcome_.lead_max, step - clock);
  }
  const Time takes = workers_[w].step_time / 2 + random_.below(static_cast<int64_t>(workers_[w].step_time));
  const Request request = {.worker = w, .incarnation = workers_[w].incarnation, .push = step, .pull = step + 1};
  at(takes, [this, request] { ask(request); });
}

void Simulation::crash(Worker w) {
  SimWorker& worker = workers_[w];
  if (!worker.running || worker.finished) return;
  worker.running = false;
  worker.awaits = false;
  const bool comes_back = draw(setting_.rejoin_percent);
  at(2 * kStepTime, [this, w, comes_back] {
    workers_[w].live_at_server = false;
    const auto& open = open_[setting_.policy.group_of[w]];
    if (std::any_of(open.begin(), open.end(), [w](const auto& g) { return g.first == w; })) note(kLeaverHadAdded);
    feed(Leave{w});
    if (comes_back) at(1 + random_.below(4 * kStepTime), [this, w] { rejoin(w); });
  });
}

void Simulation::rejoin(Worker w) {
  SimWorker& worker = workers_[w];
  worker.running = worker.live_at_server = true;
  worker.incarnation++;
  const Step step = machine_.clock(w);
  note(added_.contains({w, step}) ? kRejoinedOpen : kRejoined);
  feed(Join{w, step});
  ask({.worker = w, .incarnation = worker.incarnation, .push = {}, .pull = step});
}

void Simulation::on_request(const Request& request) {
  const SimWorker& worker = workers_[request.worker];
  if (worker.incarnation != request.incarnation) return;  // the shard's STALE_INCARNATION
  if (!worker.live_at_server) note(kLateAfterLeave);
  if (request.push) feed(Push{request.worker, *request.push});
  feed(Pull{request.worker, request.pull});
}

void Simulation::feed(const Event& event) {
  std::vector<Effect> effects;
  machine_.on(event, effects);
  fmt::format_to(std::back_inserter(outcome_.trace), "{} {}:", now_, to_text(event));
  for (const Effect& effect : effects) {
    fmt::format_to(std::back_inserter(outcome_.trace), " {};", to_text(effect));
    carry_out(event, effect);
  }
  outcome_.trace += '\n';
}

void Simulation::carry_out(const Event& event, const Effect& effect) {
  if (const auto* add = std::get_if<Add>(&effect)) {
    on_add(*add, event);
  } else if (const auto* drop = std::get_if<Drop>(&effect)) {
    require(added_.contains({drop->worker, drop->step}), "a push was dropped that was never added");
    note(drop->step < contents_[drop->worker] ? kDroppedOld : kDroppedOpen);
  } else if (const auto* apply = std::get_if<Apply>(&effect)) {
    on_apply(*apply, event);
  } else if (const auto* keep = std::get_if<Keep>(&effect)) {
    kept_[keep->group] = contents_;
  } else if (const auto* answer = std::get_if<Answer>(&effect)) {
    if (const auto* pull = std::get_if<Pull>(&event); pull != nullptr && pull->worker == answer->worker) {
      note(kAnsweredAtOnce);
    }
    on_answer_effect(*answer);
  } else if (const auto* park = std::get_if<Park>(&effect)) {
    note(kParked);
    parked_.insert(park->worker);
    require(workers_[park->waits_for].live_at_server, "a pull waits for a worker that left");
  } else if (const auto* reject = std::get_if<Reject>(&effect)) {
    require(!workers_[reject->worker].live_at_server, "a live worker was rejected");
  }
}

void Simulation::on_add(const Add& add, const Event& event) {
  const Step step = std::get<Push>(event).step;
  require(added_.insert({add.worker, step}).second, "a gradient was added twice");
  open_[add.group].emplace_back(add.worker, step);
}

void Simulation::on_apply(const Apply& apply, const Event& event) {
  auto& open = open_[apply.group];
  require(!open.empty(), "a round without gradients was applied");
  if (std::holds_alternative<Leave>(event)) note(kClosedByLeave);
  std::set<Worker> ranks;
  for (const auto& [worker, step] : open) {
    require(ranks.insert(worker).second, "two gradients of one worker in a round");
    require(step == open.front().second, "gradients of two steps in a round");
    contents_[worker] = std::max(contents_[worker], step + 1);
  }
  for (Worker w = 0; w < workers_.size(); w++) {
    const bool expected = workers_[w].live_at_server && setting_.policy.group_of[w] == apply.group;
    require(!expected || ranks.contains(w), "a round was applied before its last gradient came");
  }
  open.clear();
}

void Simulation::on_answer_effect(const Answer& answer) {
  parked_.erase(answer.worker);
  require(workers_[answer.worker].live_at_server, "a worker that left was answered");
  check_contents(answer, kept_[answer.group]);
  const uint64_t incarnation = workers_[answer.worker].incarnation;
  deliver(kAnswerLost, [this, answer, incarnation] { on_answer(answer.worker, incarnation, answer.step); });
}

void Simulation::check_contents(const Answer& answer, const Contents& contents) {
  const Policy& policy = setting_.policy;
  for (Worker w = 0; w < workers_.size(); w++) {
    const bool own_round = policy.group_of[w] == answer.group;
    // Steps that a worker did not do, for it was away, count as done: its clock is the group's.
    if (own_round && added_.contains({w, answer.step - 1})) {
      require(contents[w] >= answer.step, "an answer lacks a gradient of its group");
    }
    // A pull that came again, long after it was answered, may get later ones.
    if (own_round && policy.snapshots && machine_.clock(answer.worker) == answer.step) {
      require(contents[w] <= answer.step, "a snapshot has a gradient that came later");
    }
    const Step lead = policy.lead_max.value_or(answer.step);
    if (answer.step > lead && added_.contains({w, answer.step - lead - 1})) {
      require(contents[w] >= answer.step - lead, "an answer lacks a gradient that the bound asks for");
    }
  }
}

}  // namespace

Outcome simulate(const Setting& setting, uint64_t seed) {
  return Simulation(setting, seed).run();
}

}  // namespace dtrain::sync
