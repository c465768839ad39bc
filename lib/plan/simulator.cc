#include "plan/simulator.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "plan/agenda.h"
#include "plan/sim_servers.h"

namespace dtrain::plan {
namespace {

using Incident = Observer::Incident;

struct SimWorker {
  enum class State : uint8_t { kAway, kWaiting, kComputing, kStopped, kDone } state = State::kAway;
  bool is_live = true;   // whether the servers consider the worker live
  bool is_busy = false;  // whether the end of the epoch must wait for the worker
  uint32_t incarnation = 0;
  Request request = {};     // the request of the exchange in progress
  uint32_t unanswered = 0;  // number of servers that have not answered yet
  sync::Step next = 0;      // the step that the worker may begin: the smallest step of the servers' answers
  // Number of gradients applied to the worker's weights: the smallest number of the servers' answers.
  uint64_t applied = 0;
  Time since = 0;   // when the worker entered its current state
  Time parked = 0;  // the longest time for which a server has parked the worker's request in this exchange
  Time resend_after = 0;
  // The step in which the worker crashes. If it never begins this step, it crashes in the next step that it begins.
  std::optional<sync::Step> crash_at = {};
  Time crash_after = 0;  // time from the beginning of the step crash_at to the crash
  bool returns = false;
  sync::Step join_at = 0;  // the step at which the worker joins, or later if the servers are already past this step
};

class Simulation {
 public:
  Simulation(const Setting& setting, uint64_t seed, std::span<Observer* const> observers);
  Outcome run();

 private:
  using State = SimWorker::State;

  void at(Time time, const Action& action) { agenda_.add(time, action); }
  void act(const Action& action);
  void note(Incident incident, sync::Worker worker);
  void plan_crashes();
  [[nodiscard]] bool is_over(const SimWorker& worker) const;
  [[nodiscard]] Time patience() const;
  [[nodiscard]] double now_ms() const { return static_cast<double>(now_) / 1e6; }
  [[nodiscard]] uint64_t share_of_bytes() const { return setting_.network.bytes / setting_.servers; }
  [[nodiscard]] VirtualNetwork::Host host_of_server(uint32_t server) const { return workers_.size() + server; }
  uint8_t& is_answered(sync::Worker w, uint32_t server) { return is_answered_[size_t{w} * setting_.servers + server]; }

  // What a worker does.
  void ask(sync::Worker w, Request::Kind kind, sync::Step wanted);
  void send_request(sync::Worker w, uint32_t server);
  void resend(const Action& action);
  void on_reply(const Action& action);
  void end_exchange(sync::Worker w);
  void begin_step(sync::Worker w, sync::Step step);
  void on_computed(sync::Worker w);
  void stop(sync::Worker w);
  void enter(State state, SimWorker& worker);

  // The job as a whole: its epochs, and which workers take part.
  void set_busy(sync::Worker w, bool is_busy);
  void end_epoch();
  void crash(sync::Worker w);
  void on_crash_known(sync::Worker w);
  void let_join(sync::Step step);
  void join(const Action& action);

  // Messages to and from the servers.
  void on_request(const Action& action);
  void send_reply(uint32_t server, sync::Worker w, const Reply& reply, Time parked);

  const Setting& setting_;
  const uint64_t seed_;
  const std::span<Observer* const> observers_;
  const bool ends_by_progress_;
  VirtualNetwork network_;
  Agenda agenda_;
  Time now_ = 0;
  Time last_progress_ = 0;

  std::vector<SimWorker> workers_;
  // Indexed by worker, then server: whether the server has answered in the exchange in progress.
  std::vector<uint8_t> is_answered_;
  uint32_t first_late_;  // rank of the first worker that joins later
  size_t joins_done_ = 0;
  sync::Worker late_joined_ = 0;  // one more than the rank of the last worker that has joined later
  uint32_t busy_ = 0;             // number of workers with is_busy
  sync::Step epoch_ = 1;
  Time epoch_began_ = 0;
  Outcome outcome_;
  SimServers servers_;
};

// If the lead of the workers is not bounded, the training ends when all workers together have made a number of
// gradients. Otherwise each worker ends after its own number of steps.
bool ends_by_progress(const sync::Policy& policy) {
  return !policy.lead_max && !sync::has_same_weights(policy);
}

Simulation::Simulation(const Setting& setting, uint64_t seed, std::span<Observer* const> observers)
    : setting_(setting),
      seed_(seed),
      observers_(observers),
      ends_by_progress_(ends_by_progress(setting.policy)),
      network_(setting.network, setting.network_faults, setting.policy.group_of.size() + setting.servers, seed),
      workers_(setting.policy.group_of.size()),
      is_answered_(workers_.size() * setting.servers),
      first_late_(static_cast<uint32_t>(workers_.size())),
      servers_(setting, observers, outcome_, [this](uint32_t server, sync::Worker w, const Reply& reply, Time parked) {
        send_reply(server, w, reply, parked);
      }) {
  DT_CHECK(setting.step_ms.size() == workers_.size(), "there are {} speeds for {} workers", setting.step_ms.size(),
           workers_.size());
  outcome_.workers.resize(workers_.size());
  for (const Setting::Join& join : setting.joins) first_late_ -= std::min(join.count, first_late_);
  late_joined_ = first_late_;
  plan_crashes();
}

void Simulation::plan_crashes() {
  for (sync::Worker w = 0; w < workers_.size(); w++) {
    RandomStream random(seed_, Use::kSimulation, w, std::numeric_limits<uint64_t>::max());
    SimWorker& worker = workers_[w];
    const bool crashes = random.uniform() < setting_.crash_share;
    const auto steps = static_cast<int64_t>(setting_.steps * setting_.epochs);
    if (crashes) worker.crash_at = static_cast<sync::Step>(random.below(std::max<int64_t>(steps, 1)));
    worker.crash_after = time_of_ms(random.uniform(0, 2 * setting_.step_ms[w]));
    worker.returns = random.uniform() < setting_.return_share;
  }
  for (const Setting::Kill& kill : setting_.kills) {
    if (kill.worker >= workers_.size()) continue;
    workers_[kill.worker].crash_at = kill.step;
    workers_[kill.worker].crash_after = 0;
  }
}

Outcome Simulation::run() {
  for (sync::Worker w = first_late_; w < workers_.size(); w++) {
    workers_[w].is_live = false;
    servers_.feed_all(now_, sync::Leave{w});
  }
  for (sync::Worker w = 0; w < first_late_; w++) {
    set_busy(w, true);
    ask(w, Request::Kind::kPull, 0);
  }
  const Time patience = this->patience();
  while (!agenda_.empty() && agenda_.next_time() <= last_progress_ + patience) {
    now_ = agenda_.next_time();
    act(agenda_.take());
  }
  outcome_.all_finished = std::all_of(workers_.begin(), workers_.end(), [](const SimWorker& worker) {
    return worker.state == State::kDone || worker.state == State::kAway;
  });
  for (size_t w = 0; w < workers_.size(); w++) {  // add the wait at the end of the last epoch
    const Time end = time_of_ms(outcome_.seconds * 1000);
    if (workers_[w].state != State::kDone || workers_[w].since > end) continue;
    outcome_.workers[w].waiting_s += static_cast<double>(end - workers_[w].since) / 1e9;
  }
  outcome_.messages = network_.messages();
  outcome_.bytes = network_.bytes();
  return std::move(outcome_);
}

// If nothing progresses for this time, the simulation gives up. It is longer than any worker can need from one step to
// the next, whatever the network does.
Time Simulation::patience() const {
  const double slowest_ms =
      setting_.step_ms.empty() ? 0 : *std::max_element(setting_.step_ms.begin(), setting_.step_ms.end());
  const double bits = 2 * 8 * static_cast<double>(setting_.network.bytes) * static_cast<double>(workers_.size());
  const double exchange_ms = setting_.network.gbit_per_s > 0 ? bits / setting_.network.gbit_per_s / 1e6 : 0;
  double delay_ms = setting_.network_faults.faults.delay_max_ms;
  for (const MessageFaults& faults : setting_.network_faults.by_host)
    delay_ms = std::max(delay_ms, faults.delay_max_ms);
  return time_of_ms(100 * (slowest_ms + setting_.network_faults.resend_max_ms + delay_ms) +
                    10 * (setting_.detect_ms + exchange_ms + setting_.network.latency_ms));
}

void Simulation::note(Incident incident, sync::Worker worker) {
  for (Observer* observer : observers_) observer->on_incident(incident, worker);
}

void Simulation::act(const Action& action) {
  using Kind = Action::Kind;
  const sync::Worker w = action.worker;
  const bool is_server_side = action.kind == Kind::kRequestComes || action.kind == Kind::kRequest;
  const bool is_of_worker = !is_server_side && action.kind != Kind::kCrashKnown && action.kind != Kind::kJoin;
  if (is_of_worker && (workers_[w].incarnation != action.incarnation || workers_[w].state == State::kAway)) return;
  Action next = action;
  switch (action.kind) {
    case Kind::kRequestComes:
      next.kind = Kind::kRequest;
      return at(network_.receive(now_, host_of_server(action.server),
                                 action.request.kind == Request::Kind::kPushPull ? share_of_bytes() : 0),
                next);
    case Kind::kReplyComes: next.kind = Kind::kReply; return at(network_.receive(now_, w, share_of_bytes()), next);
    case Kind::kRequest: return on_request(action);
    case Kind::kReply: return on_reply(action);
    case Kind::kComputed: return on_computed(w);
    case Kind::kResend: return resend(action);
    case Kind::kCrash: return crash(w);
    case Kind::kCrashKnown: return on_crash_known(w);
    case Kind::kJoin: return join(action);
  }
}

// The following functions are what a worker does.

void Simulation::enter(State state, SimWorker& worker) {
  worker.state = state;
  worker.since = now_;
}

void Simulation::ask(sync::Worker w, Request::Kind kind, sync::Step wanted) {
  SimWorker& worker = workers_[w];
  enter(State::kWaiting, worker);
  worker.request = {kind, wanted, worker.request.exchange + 1};
  worker.unanswered = setting_.servers;
  worker.next = std::numeric_limits<sync::Step>::max();
  worker.applied = std::numeric_limits<uint64_t>::max();
  worker.parked = 0;
  worker.resend_after = time_of_ms(setting_.network_faults.resend_ms);
  for (uint32_t s = 0; s < setting_.servers; s++) {
    is_answered(w, s) = 0;
    send_request(w, s);
  }
  if (network_.loses_messages()) {
    at(now_ + worker.resend_after,
       {.kind = Action::Kind::kResend, .worker = w, .incarnation = worker.incarnation, .request = worker.request});
  }
}

void Simulation::send_request(sync::Worker w, uint32_t server) {
  const SimWorker& worker = workers_[w];
  const uint64_t bytes = worker.request.kind == Request::Kind::kPushPull ? share_of_bytes() : 0;
  const VirtualNetwork::Arrivals arrivals = network_.send(now_, w, bytes);
  if (arrivals.count == 0) note(Incident::kRequestLost, w);
  for (int i = 0; i < arrivals.count; i++) {
    at(arrivals.at[i], {.kind = Action::Kind::kRequestComes,
                        .worker = w,
                        .incarnation = worker.incarnation,
                        .server = server,
                        .request = worker.request});
  }
}

void Simulation::resend(const Action& action) {
  const sync::Worker w = action.worker;
  SimWorker& worker = workers_[w];
  if (worker.state != State::kWaiting || worker.request.exchange != action.request.exchange) return;
  note(Incident::kRequestAgain, w);
  for (uint32_t s = 0; s < setting_.servers; s++) {
    if (is_answered(w, s) == 0) send_request(w, s);
  }
  worker.resend_after = std::min(2 * worker.resend_after, time_of_ms(setting_.network_faults.resend_max_ms));
  at(now_ + worker.resend_after, action);
}

void Simulation::on_reply(const Action& action) {
  SimWorker& worker = workers_[action.worker];
  uint8_t& is_answered = this->is_answered(action.worker, action.server);
  if (worker.state != State::kWaiting || action.reply.exchange != worker.request.exchange || is_answered != 0) {
    return note(Incident::kAnswerAgain, action.worker);
  }
  is_answered = 1;
  for (Observer* observer : observers_) observer->on_take(action.server, action.worker, action.reply.number);
  worker.next = std::min(worker.next, action.reply.step);
  worker.applied = std::min(worker.applied, action.reply.applied);
  if (--worker.unanswered == 0) end_exchange(action.worker);
}

void Simulation::end_exchange(sync::Worker w) {
  SimWorker& worker = workers_[w];
  const Time took = now_ - worker.since;
  const Time waited = std::min(took, worker.parked);
  outcome_.workers[w].waiting_s += static_cast<double>(waited) / 1e9;
  outcome_.workers[w].network_s += static_cast<double>(took - waited) / 1e9;
  last_progress_ = now_;
  if (is_over(worker)) return stop(w);
  begin_step(w, worker.next);
}

bool Simulation::is_over(const SimWorker& worker) const {
  if (ends_by_progress_) return worker.applied >= epoch_ * setting_.steps * first_late_;
  return worker.next >= epoch_ * setting_.steps;
}

void Simulation::begin_step(sync::Worker w, sync::Step step) {
  SimWorker& worker = workers_[w];
  enter(State::kComputing, worker);
  for (Observer* observer : observers_) observer->on_begin(now_ms(), w, step);
  RandomStream random(seed_, Use::kSimulation, w, step);
  const double ms = setting_.step_ms[w] * (1 + setting_.jitter * random.uniform(-1, 1));
  at(now_ + time_of_ms(ms), {.kind = Action::Kind::kComputed, .worker = w, .incarnation = worker.incarnation});
  if (worker.crash_at && step >= *worker.crash_at) {
    worker.crash_at.reset();
    at(now_ + worker.crash_after, {.kind = Action::Kind::kCrash, .worker = w, .incarnation = worker.incarnation});
  }
  let_join(step);
}

void Simulation::on_computed(sync::Worker w) {
  SimWorker& worker = workers_[w];
  outcome_.workers[w].computing_s += static_cast<double>(now_ - worker.since) / 1e9;
  outcome_.workers[w].steps++;
  outcome_.gradients++;
  ask(w, Request::Kind::kPushPull, worker.next + 1);
}

void Simulation::stop(sync::Worker w) {
  const bool is_last = epoch_ == setting_.epochs;
  enter(is_last ? State::kDone : State::kStopped, workers_[w]);
  if (is_last) {
    workers_[w].is_live = false;
    servers_.feed_all(now_, sync::Leave{w});
  }
  set_busy(w, false);
}

// The following functions handle the job as a whole: its epochs, and which workers take part.

void Simulation::set_busy(sync::Worker w, bool is_busy) {
  if (workers_[w].is_busy == is_busy) return;
  workers_[w].is_busy = is_busy;
  if (is_busy) {
    busy_++;
  } else if (--busy_ == 0) {
    end_epoch();
  }
}

void Simulation::end_epoch() {
  outcome_.seconds = static_cast<double>(now_) / 1e9;
  // If a worker returns after the end of the last epoch, this epoch ends a second time; the new duration then replaces
  // the first one.
  outcome_.epoch_s.resize(epoch_);
  outcome_.epoch_s.back() = static_cast<double>(now_ - epoch_began_) / 1e9;
  if (epoch_ == setting_.epochs) return;
  std::vector<sync::Worker> stopped;
  for (sync::Worker w = 0; w < workers_.size(); w++) {
    if (workers_[w].state == State::kStopped) stopped.push_back(w);
  }
  if (stopped.empty()) return;  // all workers have crashed; a worker that returns continues this epoch
  epoch_++;
  epoch_began_ = now_;
  for (const sync::Worker w : stopped) {
    outcome_.workers[w].waiting_s += static_cast<double>(now_ - workers_[w].since) / 1e9;
    set_busy(w, true);
    ask(w, Request::Kind::kRefresh, workers_[w].next);
  }
}

void Simulation::crash(sync::Worker w) {
  SimWorker& worker = workers_[w];
  if (worker.state == State::kDone) return;
  enter(State::kAway, worker);
  note(Incident::kCrash, w);
  at(now_ + time_of_ms(setting_.detect_ms), {.kind = Action::Kind::kCrashKnown, .worker = w});
}

void Simulation::on_crash_known(sync::Worker w) {
  SimWorker& worker = workers_[w];
  worker.is_live = false;
  last_progress_ = now_;
  servers_.forget_parked(w);
  servers_.feed_all(now_, sync::Leave{w});
  set_busy(w, false);
  if (!worker.returns) return;
  RandomStream random(seed_, Use::kSimulation, w, std::numeric_limits<uint64_t>::max() - 1);
  at(now_ + time_of_ms(random.uniform(0, 8 * setting_.step_ms[w])), {.kind = Action::Kind::kJoin, .worker = w});
}

void Simulation::let_join(sync::Step step) {
  while (joins_done_ < setting_.joins.size() && setting_.joins[joins_done_].step <= step) {
    const Setting::Join& join = setting_.joins[joins_done_++];
    for (uint32_t i = 0; i < join.count && late_joined_ < workers_.size(); i++) {
      workers_[late_joined_].join_at = join.step;
      at(now_, {.kind = Action::Kind::kJoin, .worker = late_joined_++});
    }
  }
}

void Simulation::join(const Action& action) {
  const sync::Worker w = action.worker;
  SimWorker& worker = workers_[w];
  const bool others_refresh = std::any_of(workers_.begin(), workers_.end(), [](const SimWorker& other) {
    return other.state == State::kWaiting && other.request.kind == Request::Kind::kRefresh;
  });
  last_progress_ = now_;
  if (others_refresh) return at(now_ + time_of_ms(setting_.step_ms[w]), action);
  const sync::Step step = std::max(worker.join_at, servers_.clock(w));
  worker.is_live = true;
  worker.incarnation++;
  note(Incident::kJoin, w);
  set_busy(w, true);
  servers_.feed_all(now_, sync::Join{w, step});
  ask(w, Request::Kind::kPull, step);
}

// The following functions handle messages to and from the servers.

void Simulation::on_request(const Action& action) {
  const sync::Worker w = action.worker;
  // A message of a process that has crashed. A real server would answer it with kStaleIncarnation.
  if (workers_[w].incarnation != action.incarnation) return note(Incident::kOldProcess, w);
  const Request& request = action.request;
  if (request.kind == Request::Kind::kPushPull)
    servers_.feed(now_, action.server, sync::Push{w, request.wanted - 1}, request.exchange);
  if (request.kind == Request::Kind::kRefresh) {
    servers_.feed(now_, action.server, sync::Refresh{w, request.wanted}, request.exchange);
  } else {
    servers_.feed(now_, action.server, sync::Pull{w, request.wanted}, request.exchange);
  }
}

void Simulation::send_reply(uint32_t server, sync::Worker w, const Reply& reply, Time parked) {
  SimWorker& worker = workers_[w];
  worker.parked = std::max(worker.parked, parked);
  const VirtualNetwork::Arrivals arrivals = network_.send(now_, host_of_server(server), share_of_bytes());
  if (arrivals.count == 0) note(Incident::kAnswerLost, w);
  for (int i = 0; i < arrivals.count; i++) {
    at(arrivals.at[i], {.kind = Action::Kind::kReplyComes,
                        .worker = w,
                        .incarnation = worker.incarnation,
                        .server = server,
                        .reply = reply});
  }
}

}  // namespace

double Outcome::updates_per_s() const {
  return static_cast<double>(updates) / std::max(seconds, 1e-9);
}

Outcome simulate(const Setting& setting, uint64_t seed, std::span<Observer* const> observers) {
  return Simulation(setting, seed, observers).run();
}

}  // namespace dtrain::plan
