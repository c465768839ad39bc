// A whole job in virtual time: the scheduler's machine of the membership, the servers with the machines of their slices
// and of their views, and workers that join, train, meet, stop and leave. Messages and streams are delayed, doubled,
// broken and opened again, and processes crash, sleep and lose each other. Everything is drawn from a seed.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "simulated_audit.h"
#include "simulated_process.h"
#include "simulated_servers.h"
#include "sync/journal.h"
#include "sync/machine.h"
#include "sync/membership.h"
#include "sync/seat.h"

namespace dtrain::sync::membership {

// What happens to a job that a lost worker ends.
enum class Disturbance { kCalm, kCrash, kSilence, kStop, kCut };

// What happens to a job that continues without lost workers. In all of them others join, are asked to leave, meet at
// borders, and are sometimes asked to stop.
enum class Climate {
  kFair,       // nothing else
  kCrashes,    // processes die
  kLate,       // processes sleep, streams are stuck, messages come twice
  kTwo,        // a worker and a server lose each other, and two processes die at once
  kScheduler,  // the scheduler is killed and comes back, and processes die
  kServers,    // servers die or sleep, and others take their places; sometimes also what happens in kScheduler
};
// The last two have no servers: the workers add up their gradients in a group. In the one, each worker gets all arrays
// and adds them up; in the other, each adds up a part of every array and gives the sum to the others.
enum class Scheme { kBsp, kBackup, kAsp, kSsp, kGsp, kAllReduce, kReduceScatter, kUpdateOnWorker };
constexpr bool has_servers(Scheme scheme) {
  return scheme != Scheme::kAllReduce && scheme != Scheme::kReduceScatter;
}
constexpr bool is_bsp(Scheme scheme) {
  return scheme == Scheme::kBsp || scheme == Scheme::kUpdateOnWorker || !has_servers(scheme);
}
struct Course {
  Scheme scheme = Scheme::kBsp;
  OnWorkerLoss on_loss = OnWorkerLoss::kShrink;
  Climate climate = Climate::kFair;
};

struct Outcome {
  bool ended = false;
  std::optional<StopJob> failure;
  std::vector<std::vector<uint64_t>> steps_of_set;  // by set: of the workers that ended by themselves
  std::vector<std::string> heard;                   // messages of the StopJob notices that processes received
  Millis detection_ms = 0;                          // from the crash until the last survivor knew of it
  Millis stopping_ms = 0;                           // from the signal to the end
  bool survivors_ended = true;
  bool was_stopped = false;
  bool barrier_was_early = false;  // a barrier was released although a live worker was not in it
  bool met_at_epochs_end = false;  // the stop found some workers waiting at the end of an epoch
  uint64_t reconnects = 0;
  uint64_t regrouped = 0;  // how often
  uint64_t cut_links = 0, mended_links = 0;
  std::optional<Member> lost;           // who was declared lost
  bool is_right_one_lost = false;       // by the rule for cut connections, computed from those that were cut
  Millis since_first_cut_ms = 0;        // from the first cut that was not mended until somebody was declared lost
  bool border_was_uneven = false;       // at a border, workers of a group were before different steps
  std::set<uint32_t> unanswered;        // ranks of the workers that were asked to leave, if that was not answered
  bool has_gone_on_without = false;     // at a border, a job that stands still has continued without a lost worker
  bool has_lacked_replacement = false;  // a lost worker's place stayed empty for the timeout
  bool has_lost_server = false;
  bool may_lack_snapshots = false;    // servers had no snapshots of the same version, as may be
  bool has_lacked_snapshots = false;  // servers had no snapshots of the same version, although they should
  bool has_trained = false;
  bool has_finished = false;  // a worker has made all steps
  bool has_survivor = false;  // a worker had not finished, and would have continued, when the job failed
  std::string broken;         // what the audit has found; empty: nothing
  std::map<std::string_view, uint64_t> paths;  // what has happened, and how often
  std::string trace;
};

class Simulation {
 public:
  Simulation(uint64_t seed, Disturbance disturbance) : random_(seed, Use::kSimulation), disturbance_(disturbance) {
    draw_job(seed);
    scheme_ = std::vector{Scheme::kBsp, Scheme::kSsp, Scheme::kGsp, Scheme::kAsp}[random_.below(4)];
    begin(Settings{.workers = workers_, .servers = servers_, .job_text = ""});
  }
  Simulation(uint64_t seed, const Course& course)
      : random_(seed, Use::kSimulation, static_cast<uint64_t>(course.scheme), number_of(course)),
        climate_(course.climate),
        scheme_(course.scheme) {
    draw_job(seed);
    servers_ = has_servers(scheme_) ? static_cast<uint32_t>(1 + random_.below(2)) : 0;
    if (climate_ == Climate::kServers) draw_snapshots();
    is_group_ = servers_ == 0;
    seats_ += static_cast<uint32_t>(random_.below(climate_ == Climate::kTwo ? 5 : 3));
    Settings settings{.workers = workers_, .servers = servers_, .on_worker_loss = course.on_loss, .job_text = ""};
    settings.max_workers = seats_;
    if (has_snapshots()) settings.on_server_loss = OnServerLoss::kGoBack;
    settings.meets_on_change = random_.below(2) == 0;
    waits_ = course.on_loss == OnWorkerLoss::kWait;
    fails_ = course.on_loss == OnWorkerLoss::kFail;
    goes_back_ = is_group_ && waits_ && random_.below(2) == 0;
    stands_still_ = settings.stands_still = waits_ && (has_same_weights() || scheme_ == Scheme::kGsp);
    settings.rejoin_timeout_ms = kRejoinTimeout;
    settings.start_timeout_ms = 20'000;
    epochs_++;
    begin(std::move(settings));
  }

  Outcome run() {
    for (Process& p : processes_) after(random_.below(2'000), [this, &p] { join(p); });
    after(50, [this] { tick(); });
    const int64_t moment = 1'000 + random_.below(4'000);
    if (disturbance_ == Disturbance::kCrash || disturbance_ == Disturbance::kSilence) {
      after(moment, [this] { crash(); });
    }
    if (disturbance_ == Disturbance::kStop) after(moment, [this] { request_stop(); });
    if (disturbance_ == Disturbance::kCut) after(moment, [this] { cut_links(); });
    if (climate_) draw_changes();
    if (climate_) draw_faults();
    while (!time_.empty() && !has_ended_ && time_.now() < 200'000) time_.step();
    return outcome();
  }

 private:
  static constexpr const char* kInitial = "the initial weights";
  static constexpr const char* kMeeting = "the end of an epoch or of the job";
  static constexpr const char* kPosition = "the position of the run";
  static constexpr const char* kAddresses = "addresses of the workers";
  static constexpr Millis kRejoinTimeout = 9'000, kTimeout = 3'000;
  static constexpr Millis kSleepMax = 5'000, kStuckMax = 1'400, kAbsenceMax = 1'500;
  static constexpr int64_t kSlowMax = 2'500;  // until a report of a server comes
  static constexpr uint64_t kKillsMax = 3;
  static constexpr int64_t kDelayMax = 20;
  static constexpr uint32_t kSlicesOfServer = 2, kBuckets = 2;
  static constexpr int64_t kBatch = 2, kStepsOfEpoch = 10;
  static constexpr int kGroupFailuresMax = 5;  // as in train/group_renewal.cc
  static constexpr uint64_t kNoStep = ~uint64_t{0};
  using Process = SimulatedProcess;

  // ---- The job.

  static uint64_t number_of(const Course& course) {
    const auto climate = static_cast<uint64_t>(course.climate);
    return course.climate == Climate::kServers ? climate + 100 * static_cast<uint64_t>(course.on_loss) : climate;
  }
  void draw_job(uint64_t seed) {
    one_lacks_index_ = seed % 3 == 0;
    workers_ = seats_ = static_cast<uint32_t>(1 + random_.below(5));
    servers_ = static_cast<uint32_t>(random_.below(3));
    epochs_ = static_cast<uint64_t>(random_.below(climate_ ? 3 : 6));
  }
  void begin(Settings settings) {
    settings.heartbeat_timeout_ms = kTimeout;
    policy_ = draw_policy();
    records_ = static_cast<int64_t>(workers_) * kBatch * kStepsOfEpoch - random_.below(7);
    if (!policy_.lead_max) stop_set_of_ = policy_.group_of;
    set_of_ = stop_set_of_.empty() ? std::vector<uint32_t>(seats_, 0) : stop_set_of_;
    for (uint64_t epoch = 0; epoch < epochs_; epoch++) new_sets_.push_back(draw_new_sets());
    settings_ = settings;
    machine_ = std::make_unique<Machine>(settings);
    if (has_snapshots()) disks_.resize(servers_);
    if (climate_ == Climate::kScheduler || may_lose_scheduler_) journal_.emplace();
    for (uint32_t i = 0; i < workers_ + servers_; i++) {
      const bool works = i < workers_;
      processes_.push_back(
          {.id = i, .works = works, .rank = works ? i : i - workers_, .step_ms_max = 20 + random_.below(150)});
    }
    const bool is_late = climate_ == Climate::kLate || has_snapshots();
    const Millis absent = journal_ ? kKillsMax * (kAbsenceMax + kTimeout) : 0;
    audit_.emplace(simulated::Rules{
        .group_of = policy_.group_of,
        .lead_max = policy_.lead_max.value_or(simulated::kNoBound),
        .backup = policy_.backup,
        .slices_of = slices_of_places(),
        .parameter_slices = parameter_slices(),
        .statistics = is_group_ ? 0U : 1U,
        .patience_ms = 1'500 + absent + (has_snapshots() ? kSlowMax : 0) + (is_late ? kSleepMax + kStuckMax : 0),
        .detection_ms = kTimeout + 200 + absent + (is_late ? kSleepMax : 0),
        .stands_still = stands_still_,
        .rejoin_ms = kRejoinTimeout + absent,
        .records = divides_records() ? static_cast<uint32_t>(records_) : 0,
        .is_group = is_group_,
        .goes_back = has_snapshots(),
        .group_ms = 1'500 + 2 * kTimeout + absent + (is_late ? kSleepMax + kStuckMax : 0)});
    if (has_snapshots()) begin_return_audit(absent);
  }
  Policy draw_policy() {
    std::vector<uint32_t> groups(seats_);
    std::ranges::generate(groups, [&] { return static_cast<uint32_t>(random_.below(seats_)); });
    const auto bound = static_cast<Step>(random_.below(3));
    switch (scheme_) {
      case Scheme::kBsp:
      case Scheme::kUpdateOnWorker:
      case Scheme::kAllReduce:
      case Scheme::kReduceScatter: return bsp(seats_);
      case Scheme::kBackup: return bsp(seats_, 1);
      case Scheme::kAsp: return asp(seats_);
      case Scheme::kSsp: return ssp(seats_, bound);
      case Scheme::kGsp: break;
    }
    return gsp(groups, climate_ && random_.below(2) == 0 ? std::optional(bound) : std::nullopt);
  }
  // New groups that a meeting brings. Empty: the groups stay as they are.
  std::vector<uint32_t> draw_new_sets() {
    std::vector<uint32_t> sets(seats_);
    if (random_.below(2) == 0 || scheme_ != Scheme::kGsp || climate_) return {};
    std::ranges::generate(sets, [&] { return static_cast<uint32_t>(random_.below(seats_)); });
    return sets;
  }

  // In a job that a lost worker ends, the group of the workers takes the place of a server: it waits for all of its
  // members too.
  uint32_t places() const { return is_group_ ? 0 : std::max(servers_, 1U); }
  uint32_t parameter_slices() const { return places() * kSlicesOfServer; }
  uint32_t place_of(uint32_t slice) const {
    return slice == parameter_slices() ? places() - 1 : slice / kSlicesOfServer;
  }
  std::vector<std::vector<uint32_t>> slices_of_places() const {
    std::vector<std::vector<uint32_t>> slices(places());
    if (is_group_) return slices;
    for (uint32_t slice = 0; slice <= parameter_slices(); slice++) slices[place_of(slice)].push_back(slice);
    return slices;
  }
  // Whether every worker makes the same number of steps in an epoch, and whether the records that each reads matter.
  bool makes_fixed_steps() const { return has_same_weights() || policy_.lead_max.has_value(); }
  bool workers_update() const { return scheme_ == Scheme::kUpdateOnWorker; }
  bool divides_records() const { return has_same_weights() && climate_; }
  bool has_same_weights() const { return is_bsp(scheme_); }

  // ---- Time and messages.

  void after(int64_t delay, std::function<void()> what) {
    time_.at(time_.now() + static_cast<Millis>(delay), std::move(what));
  }
  // A process that has crashed does nothing, and one that sleeps does it when it wakes.
  void later(Process& p, int64_t delay, std::function<void()> what) {
    after(delay, [this, &p, what = std::move(what)]() mutable { when_awake(p, std::move(what)); });
  }
  void when_awake(Process& p, std::function<void()> what) {
    if (p.crashed) return;
    if (time_.now() >= p.asleep_until) return what();
    time_.at(p.asleep_until, [this, &p, what = std::move(what)]() mutable { when_awake(p, std::move(what)); });
  }
  int64_t delay() { return 1 + random_.below(kDelayMax); }
  // What a process sends arrives later. A crashed process sends nothing.
  void send_from(Process& p, Event event) {
    if (!p.crashed) after(delay(), [this, event = std::move(event)] { send(event); });
  }
  void note(std::string_view path) { paths_[path]++; }

  // ---- What processes do apart from training.

  void join(Process& p) {
    if (p.crashed) return;
    p.has_joined = true;
    if (p.seat.state() == seat::Worker::State::kOutside) (void)p.seat.ask(p.incarnation());
    ask_to_join(p, Join{.incarnation = p.incarnation(),
                        .role = p.works ? Role::kWorker : Role::kServer,
                        .want_rank = p.rank,
                        .job_text = "",
                        .lacks_index = p.works && one_lacks_index_ && p.id + 1 == workers_,
                        .prepared = p.prepared});
  }
  void ask_to_join(Process& p, const Join& join) {
    p.asks = join;
    call_to_join(p);
  }
  // A process has one such call at a time. Another one comes instead of a call that broke.
  void call_to_join(Process& p) {
    if (p.crashed) return;
    after(delay(), [this, &p, call = ++p.join_call, join = *p.asks] {
      if (p.join_call != call) return;
      p.awaits_answer = !is_down_;
      send(join);
    });
  }

  // Somebody starts a worker that joins the running job: for this rank, or for any.
  void start_late(std::optional<uint32_t> rank) {
    Process& p = add_late(rank);
    (void)p.seat.ask(p.incarnation());
    ask_to_join(p, {.incarnation = p.incarnation(), .rank = rank});
    if (climate_ != Climate::kFair && random_.below(6) == 0) after(random_.below(1'500), [this, &p] { crash(p); });
  }
  Process& add_late(std::optional<uint32_t> rank) {
    const auto id = static_cast<uint32_t>(processes_.size());
    processes_.push_back({.id = id,
                          .works = true,
                          .rank = rank.value_or(0),
                          .is_late = true,
                          .takes_part = false,
                          .step_ms_max = 20 + random_.below(150),
                          .has_joined = true});
    return processes_.back();
  }
  void ask_to_join(Process& p, const seat::Worker::Request& request) {
    ask_to_join(p, Join{.incarnation = request.incarnation,
                        .role = Role::kWorker,
                        .want_rank = request.rank,
                        .job_text = "",
                        .is_late = true,
                        .formerly = request.formerly});
  }
  // A process has learned that it has lost its seat. It closes everything that it had because of the seat, which takes
  // a while, and asks for one again.
  void lose_seat(Process& p) {
    if (p.crashed || p.ended || p.seat.state() != seat::Worker::State::kLost) return;
    p.has_unwound = p.ended = true;
    close_group(p);
    note_end(p);
    audit_->asks_again(time_.now(), p.incarnation());
    later(p, random_.below(800), [this, &p] {
      Process& next = add_late(p.rank);
      next.step_ms_max = p.step_ms_max;
      next.seat = p.seat;
      next.flaps = p.flaps - 1;
      ask_to_join(next, next.seat.ask(next.incarnation()));
      if (next.flaps > 0) after(random_.below(2'500), [this, &next] { sleep(next, kSleepMax); });
    });
  }

  void tick() {
    send(Tick{});
    const bool is_running = where_ == Where::kRunning || is_near_border();
    audit_->look(time_.now(), is_running);
    if (has_snapshots()) look_at_servers(is_running);
    after(100, [this] { tick(); });
  }

  void heartbeat(Process& p) {
    if (p.ended) return;
    if (p.stream) send_from(p, Heartbeat{p.incarnation()});
    report_links(p);
    if (p.stream && random_.below(40) == 0) break_stream(p);
    later(p, 500, [this, &p] { heartbeat(p); });
  }

  void break_stream(Process& p) {
    p.stream = false;
    p.call_broke = p.in_barrier.has_value();
    reconnects_++;
    send_from(p, StreamClosed{p.incarnation()});
    later(p, 100 + random_.below(400), [this, &p] { open_stream(p); });
  }
  void open_stream(Process& p) {
    if (p.ended) return;
    later(p, delay(), [this, &p] {
      if (is_down_) return open_stream(p);
      p.stream = true;
      send(StreamOpened{p.incarnation()});
      if (has_snapshots() && !p.works) return report_again(p);
      if (p.viewed > 0) send_from(p, Viewed{p.incarnation(), p.viewed});
    });
    if (std::exchange(p.call_broke, false)) ask_barrier(p);  // repeat the call
  }

  void request_stop() {
    stop_ms_ = time_.now();
    was_asked_to_stop_ = is_asked_to_stop_ = true;
    send(StopRequested{"a signal"});
  }

  // ---- What happens to the job.

  void draw_changes() {
    const auto moments = [&](int64_t count, const std::function<void()>& what) {
      for (int64_t i = 0; i < count; i++) after(1'000 + random_.below(5'000), what);
    };
    moments(random_.below(3), [this] { ask_to_leave(); });
    moments(random_.below(3), [this] { ask_to_meet(); });
    moments(random_.below(climate_ == Climate::kTwo ? 7 : 4), [this] { start_late({}); });
    if (random_.below(10) == 0) after(2'000 + random_.below(3'000), [this] { drain_all(); });
    if (random_.below(6) == 0) after(500 + random_.below(6'000), [this] { request_stop(); });
  }
  // Faults come at any time, or when the job is where it rarely is.
  void draw_faults() {
    if (climate_ == Climate::kFair) return;
    const int64_t count = 1 + random_.below(3);
    for (int64_t i = 0; i < count; i++) {
      if (random_.below(2) == 0) {
        after(random_.below(7'000), [this] { fault(); });
      } else {
        targets_.insert(static_cast<Where>(random_.below(static_cast<int64_t>(Where::kEnded))));
      }
    }
  }
  void fault() {
    if (has_snapshots()) return fault_with_servers();
    if (climate_ == Climate::kCrashes) return crash(any_process(random_.below(10)));
    if (climate_ == Climate::kScheduler && random_.below(3) > 0) return kill_scheduler();
    if (climate_ == Climate::kScheduler) return crash(any_process(random_.below(10)));
    if (climate_ == Climate::kLate) return disturb(any_process(random_.below(10)));
    if (random_.below(3) == 0) return is_group_ ? cut_workers() : cut_pair();
    Process &one = any_process(random_.below(6)), &other = any_process(random_.below(6));
    const bool both = can_crash(one) && can_crash(other) && &one != &other;
    if (both) note(pair_of_roles(one, other));
    crash(one);
    crash(other);
  }
  static std::string_view pair_of_roles(const Process& one, const Process& other) {
    static constexpr std::string_view kPairs[3][3] = {
        {"two at once: worker and worker", "two at once: worker and joiner", "two at once: worker and server"},
        {"two at once: worker and joiner", "two at once: joiner and joiner", "two at once: joiner and server"},
        {"two at once: worker and server", "two at once: joiner and server", "two at once: server and server"}};
    const auto role = [](const Process& p) { return !p.works ? 2 : p.takes_part ? 0 : 1; };
    return kPairs[role(one)][role(other)];
  }

  // 0: a server, which the job does not survive; 1 or 2: a worker that joins; more: one that takes part.
  Process& any_process(int64_t kind) {
    std::vector<Process*> meant;
    for (Process& p : processes_) {
      const bool is_meant = kind == 0 ? !p.works : kind < 3 ? p.works && !p.takes_part : p.is_worker();
      if (is_meant && !p.is_over()) meant.push_back(&p);
    }
    return meant.empty() ? processes_[0] : *meant[static_cast<size_t>(random_.below(std::ssize(meant)))];
  }
  Process& any_worker() {
    Process& p = any_process(3);
    return p.is_worker() ? p : processes_[0];
  }
  bool can_crash(const Process& p) const { return p.has_joined && !p.is_over(); }
  void crash(Process& p) {
    if (!can_crash(p)) return;
    p.crashed = true;
    note_fault(p);
    audit_->is_gone(time_.now(), p.incarnation());
    if (!p.works && has_snapshots()) note_lost_server(p);
    if (!p.works && !has_snapshots()) audit_->server_is_gone(p.rank);
    if (!p.admitted) return after(kDelayMax + delay(), [this, &p] { send(Withdraw{p.incarnation()}); });
    const int64_t how = random_.below(3);  // its connection closes, its launcher says so, or its host is gone
    if (is_group_) after(how == 2 ? kTimeout : 0, [this, &p] { close_group(p); });
    if (how == 0) after(delay(), [this, &p] { send(StreamClosed{p.incarnation()}); });
    if (how == 1 && !p.is_late) {
      after(delay(), [this, &p] {
        send(ProcessEnded{{p.works ? Role::kWorker : Role::kServer, p.rank}, "was killed by signal 9 (Killed)"});
      });
    }
  }
  // The worker that is furthest does not hear of the Hold. It crashes some time later, perhaps after a step that the
  // others do not begin before they meet.
  void lose_first() {
    const auto key = [](const Process& p) { return p.is_worker() && !p.is_over() && p.stream ? p.begun + 1 : 0; };
    Process& p = *std::ranges::max_element(processes_, {}, key);
    if (key(p) == 0) return;
    break_stream(p);
    after(random_.below(300), [this, &p] { crash(p); });
  }
  void note_fault(const Process& p) {
    if (where_ == Where::kGathering) note("a process was lost while gathering");
    if (where_ != Where::kGathering && !p.admitted && !p.is_late) note("a process was lost while starting");
    if (p.works && !p.takes_part && p.in_barrier) note("a worker was lost between its answer and the border");
  }

  // The process sleeps, or what it sends to a server does not arrive for a while.
  void disturb(Process& p) {
    if (!can_crash(p)) return;
    const auto span = static_cast<Millis>(200 + random_.below(kSleepMax - 200));
    if (random_.below(3) == 0) {
      p.stuck_ms[static_cast<uint32_t>(random_.below(std::max(places(), 1U)))] =
          time_.now() + std::min(span, kStuckMax);
      return note("a stream was stuck");
    }
    if (p.works && random_.below(4) == 0) p.flaps = 4;
    sleep(p, p.flaps > 0 ? kSleepMax : span);
  }
  void sleep(Process& p, Millis span) {
    if (!can_crash(p)) return;
    p.asleep_until = std::max(p.asleep_until, time_.now() + span);
    note("a process slept");
  }
  bool doubles() { return climate_ == Climate::kLate && random_.below(30) == 0; }

  void cut_pair() {
    Process& p = any_worker();
    if (!p.admitted || p.is_over()) return;
    const auto server = static_cast<uint32_t>(random_.below(servers_));
    p.cut.try_emplace(server, time_.now());
    note("a worker and a server lost each other");
    report_links(p);
    later(p, random_.below(6'000), [this, &p, server] { mend(p, server); });
  }
  void mend(Process& p, uint32_t server) {
    mended_count_ += p.cut.erase(server);
    report_links(p);
    repeat_requests(p, server);
  }

  void ask_to_leave() {
    const auto rank = static_cast<uint32_t>(random_.below(seats_));
    const bool by_signal = random_.below(2) == 0;
    if (!by_signal && !is_down_ && !machine_->ended()) unanswered_.insert(rank);
    was_asked_to_stop_ = was_asked_to_stop_ || by_signal;  // the job stops if it cannot continue without this worker
    if (by_signal) drained_.insert(rank);
    send(LeaveAsked{.rank = rank, .by_signal = by_signal});
  }
  void ask_to_meet() {
    Process& p = any_worker();
    if (p.admitted && !p.ended) send_from(p, BorderAsked{p.incarnation()});
  }
  void drain_all() {
    was_asked_to_stop_ = true;
    note("all workers were asked to leave");
    for (uint32_t rank = 0; rank < workers_; rank++) {
      after(random_.below(900), [this, rank] {
        drained_.insert(rank);
        send(LeaveAsked{.rank = rank, .by_signal = true});
      });
    }
  }

  // The crash of one process in a job that this ends.
  void crash() {
    Process& p = processes_[static_cast<size_t>(random_.below(std::ssize(processes_)))];
    if (!p.admitted || p.ended) return;
    p.crashed = true;
    crashed_ = &p;
    crashed_ms_ = time_.now();
    if (disturbance_ == Disturbance::kCrash) after(delay(), [this, &p] { send(StreamClosed{p.incarnation()}); });
  }

  // Cuts some workers off from one server, each at a time of its own. Some of these connections are open again soon.
  void cut_links() {
    if (servers_ == 0) return;
    const auto server = static_cast<uint32_t>(random_.below(servers_));
    for (Process& p : processes_) {
      const bool is_cut = p.is_worker() && random_.below(3) > 0;
      const bool is_mended = random_.below(3) == 0;
      const int64_t begins = random_.below(400), ends = begins + random_.below(1'500);
      if (!is_cut) continue;
      after(begins, [this, &p, server] {
        if (!p.admitted || p.ended) return;
        p.cut[server] = time_.now();
        cut_count_++;
        report_links(p);
      });
      if (is_mended) after(ends, [this, &p, server] { mend(p, server); });
    }
  }
  void report_links(Process& p) {
    if (disturbance_ != Disturbance::kCut && climate_ != Climate::kTwo) return;
    LinksLost event{p.incarnation(), {}};
    for (const auto& [server, since] : p.cut) event.links.push_back({server, time_.now() - since, "cut"});
    if (p.works && p.stream && !p.ended) send_from(p, event);
  }

  // The rule for cut connections, applied to what was cut.
  bool is_lost_by_rule(const Member& lost) const {
    std::optional<std::pair<Millis, uint32_t>> first;
    for (const Process& p : processes_) {
      for (const auto& [server, since] : p.cut) {
        if (!p.is_gone && (!first || since < first->first)) first = {since, server};
      }
    }
    if (!first) return false;
    const auto lives = [&](const Process& p) { return p.is_worker() && !p.is_gone; };
    const auto misses = [&](const Process& p) { return lives(p) && p.cut.contains(first->second); };
    const auto live = std::ranges::count_if(processes_, lives), without = std::ranges::count_if(processes_, misses);
    if (without > live - without) return lost == Member{Role::kServer, first->second};
    if (lost.role == Role::kServer || !processes_[lost.rank].cut.contains(first->second)) return false;
    return processes_[lost.rank].cut.at(first->second) <=
           first->first + static_cast<Millis>(kDelayMax);  // reports may overtake each other
  }
  Millis first_cut() const {
    Millis first = time_.now();
    for (const Process& p : processes_) {
      for (const auto& [server, since] : p.cut) first = p.is_gone ? first : std::min(first, since);
    }
    return first;
  }

  // ---- The worker's loop.

  // A training step begins when the gate allows it and the weights are here.
  void try_begin(Process& p) {
    if (is_group_) return try_begin_in_group(p);
    if (p.is_over() || p.in_barrier || p.waits != SliceWait::kNothing) return;
    if (p.at.epoch == epochs_) return leave(p, std::nullopt);
    if (epoch_is_over(p)) return enter_barrier(p, kMeeting);
    if (p.must_leave) {
      p.has_left = true;
      return leave(p, std::nullopt);
    }
    const bool is_held = p.held > p.passed;
    p.waits_at_gate = is_held && !p.stop_after;
    if (p.waits_at_gate) return;
    if (is_held && p.next >= p.stop_after->steps) return p.stop_after->meets ? come_to_border(p) : stop(p);
    p.begun = p.next + 1;
    audit_->begins(time_.now(), p.incarnation(), p.rank);
    if (has_snapshots()) keep_point(p);
    p.batch = read_records(p);
    if (workers_update()) audit_->has_weights(time_.now(), 0, p.next, hash_of(p.weights));
    p.waits = SliceWait::kStep;
    later(p, 1 + random_.below(p.step_ms_max), [this, &p] { ask(p, SliceWait::kStep); });
  }
  bool epoch_is_over(const Process& p) const {
    if (makes_fixed_steps()) return p.at.made >= p.at.steps;
    return p.applied >= (p.at.epoch + 1) * kStepsOfEpoch * workers_;
  }

  // Sends a request to every slice that the wait is about.
  void ask(Process& p, SliceWait wait) {
    if (p.is_over()) return;
    p.waits = wait;
    if (p.back.is_broken) return give_up(p);
    p.open.resize(parameter_slices() + 1);
    p.weights.resize(parameter_slices());
    const bool only_statistics = wait == SliceWait::kStatistics || wait == SliceWait::kGiveStatistics;
    const bool statistics = only_statistics || wait == SliceWait::kFirstWeights;
    const uint32_t begin = only_statistics ? parameter_slices() : 0;
    const uint32_t end = parameter_slices() + (statistics ? 1 : 0);
    if (has_snapshots() && wait == SliceWait::kStep) count_statistics(p);
    for (uint32_t slice = begin; slice < end; slice++) {
      SliceRequest& request = p.open[slice].request;
      request = {.from = p.incarnation(), .rank = p.rank, .slice = slice, .number = ++p.requests};
      if (wait == SliceWait::kStep || wait == SliceWait::kStatistics) request.call = SliceCall::kPush;
      if (wait == SliceWait::kRefresh) request.call = SliceCall::kRefresh;
      if (wait == SliceWait::kHandOver) request.call = SliceCall::kAssign;
      if (workers_update() && slice < parameter_slices()) {
        request.weights = p.weights[slice];
        request.gradient = mix64(gradient_of(p.batch, hash_of(p.weights)) + slice);
      }
      if (has_snapshots()) add_content(p, request, wait);
      if (wait != SliceWait::kFirstWeights) request.step = slice == parameter_slices() ? p.meetings : p.next;
      later(p, random_.below(6), [this, &p, slice, number = p.requests] { send_request(p, slice, number); });
    }
  }
  void repeat_requests(Process& p, uint32_t server) {
    for (uint32_t slice = 0; slice < p.open.size(); slice++) {
      const SliceRequest& request = p.open[slice].request;
      if (request.number > 0 && place_of(slice) == server) send_request(p, slice, request.number);
    }
  }
  void send_request(Process& p, uint32_t slice, uint64_t number) {
    const SliceRequest& request = p.open[slice].request;
    const uint32_t place = place_of(slice);
    if (p.is_over() || request.number != number || p.cut.contains(place)) return;
    if (has_snapshots()) return send_to_link(p, request, place);
    for (int64_t copies = doubles() ? 2 : 1; copies > 0; copies--) {
      Millis& arrives = p.stream_ms[place];
      arrives = std::max({arrives, time_.now() + static_cast<Millis>(delay()), p.stuck_ms[place]});
      time_.at(arrives, [this, request, place] {
        if (servers_ == 0) return deliver(place, request);
        when_awake(processes_[workers_ + place], [this, request, place] { deliver(place, request); });
      });
    }
  }
  template <class Message>
  void deliver(uint32_t place, const Message& message) {
    answer(place, places_[place].on(time_.now(), message));
  }
  void answer(uint32_t place, const std::vector<SliceAnswer>& answers) {
    for (const SliceAnswer& answer : answers) {
      Process& p = of(answer.to);
      later(p, delay(), [this, &p, answer, place] {
        if (!p.cut.contains(place)) on_answer(p, answer);
      });
    }
  }
  void on_answer(Process& p, const SliceAnswer& answer) {
    OpenRequest& open = p.open[answer.slice];
    if (p.is_over() || open.request.number != answer.number || p.back.is_broken) return;
    if (answer.is_cut) return send_again(p, answer);
    if (answer.is_refused) return be_refused(p);
    open = {.request = {}, .answer = answer};
    if (std::ranges::any_of(p.open, [](const OpenRequest& one) { return one.request.number > 0; })) return;
    on_all_answers(p, std::exchange(p.waits, SliceWait::kNothing));
  }
  void on_all_answers(Process& p, SliceWait waited) {
    p.applied = std::max(p.applied, p.open[0].answer.applied);
    Step open = p.open[0].answer.step;
    for (uint32_t slice = 0; slice < parameter_slices(); slice++) open = std::min(open, p.open[slice].answer.step);
    switch (waited) {
      case SliceWait::kStep:
        if (workers_update()) update(p);
        if (has_snapshots()) take_weights(p);
        p.next++;
        if (policy_.backup > 0 && open > p.next) note("a worker was left behind and jumped");
        if (policy_.backup > 0) p.next = std::max(p.next, open);
        p.at.made++;
        return try_begin(p);
      case SliceWait::kFirstWeights:
        if (has_snapshots()) take_statistics(p);
        if (p.back.is_returning) return have_snapshot(p, open);
        p.next = open;
        if (makes_fixed_steps()) skip_to(p, open);
        p.meetings = p.open[parameter_slices()].answer.step;
        for (uint32_t slice = 0; slice < parameter_slices(); slice++) p.weights[slice] = p.open[slice].answer.weights;
        return try_begin(p);
      case SliceWait::kHandOver: note("a worker gave its weights to the servers"); return enter_barrier(p, kPosition);
      case SliceWait::kRefresh: return ask(p, SliceWait::kStatistics);
      case SliceWait::kStatistics: p.meetings++; return has_snapshots() ? have_shared(p) : end_meeting(p);
      case SliceWait::kGiveStatistics: return enter_barrier(p, kPosition);
      case SliceWait::kNothing: return;
    }
  }
  // As EpochClock::skip_to_update().
  void skip_to(Process& p, uint64_t next) {
    if (next > p.at.next) note("a newcomer's seat had made its first steps");
    for (; p.at.next < next && p.at.made < p.at.steps; p.at.next++) {
      p.at.made++;
      for (int64_t i = 0; i < kBatch && !p.reading.empty(); i++) p.reading.pop_back();
    }
    if (next < p.at.next) note("a newcomer's group was behind the worker whose position it has");
    for (; p.at.next > next && p.at.made > 0; p.at.next--) p.at.made--;
  }
  // The servers have only added up the gradients.
  void update(Process& p) {
    for (uint32_t slice = 0; slice < parameter_slices(); slice++) {
      const SliceAnswer& answer = p.open[slice].answer;
      if (answer.sum_of != p.next) wrong_ = fmt::format("worker {} got the sum of another step", p.rank);
      p.weights[slice] = updated(p.weights[slice], answer.sum);
    }
  }
  // Its seat belongs to nobody or to another process. It waits until the scheduler says so.
  void be_refused(Process& p) {
    note("a server refused a process without a seat");
    if (!p.is_lost) refused_wrongly_ = true;
    p.has_unwound = true;
    lose_seat(p);
  }

  // The sum at a meeting says whether any worker stops; then all of them do.
  void after_barrier(Process& p, const BarrierEnter& barrier, const ReleaseBarrier& release) {
    p.live.clear();
    for (uint32_t rank = 0; rank < seats_; rank++) {
      if (std::ranges::count(release.gone, rank) == 0) p.live.push_back(rank);
    }
    if (is_group_) learn_changes(p, release);
    if (barrier.name == kInitial) return begin_training(p);
    if (barrier.name == kAddresses) return form_group(p, barrier.seq);
    if (barrier.name == kPosition) return learn_position(p, barrier.seq);
    if (is_group_ && barrier.name == kMeeting) return agree(p, barrier.seq);
    if (has_snapshots() && barrier.name == kMeeting && agree_with_servers(p, release)) return;
    if (barrier.name != kMeeting) return begin_next_epoch(p);
    if (border_at_[barrier.seq] > 0) return pass_border(p, barrier.seq, release.joined);
    p.stops = stopping_meeting_ == barrier.seq;
    if (p.stops && !p.stopping) met_at_epochs_end_ = true;
    if (!p.stops && divides_records()) audit_->ends_epoch(time_.now(), p.at.epoch);
    if (!p.stops && makes_fixed_steps() && ended_at_.try_emplace(p.at.epoch, p.next).first->second != p.next) {
      wrong_ = fmt::format("worker {} ends the epoch before step {}, another one before step {}", p.rank, p.next,
                           ended_at_[p.at.epoch]);
    }
    ask(p, has_same_weights() ? SliceWait::kStatistics : SliceWait::kRefresh);
  }
  void begin_training(Process& p) {
    has_trained_ = true;
    if (std::exchange(p.group.has_gone_back, false)) return have_settled(p);
    if (std::exchange(p.back.has_returned, false)) return continue_from_snapshot(p);
    if (!is_group_) p.weights.resize(parameter_slices());
    begin_epoch(p);
    if (has_snapshots()) p.back.keep(0, p.at);
    if (!checkpoint_) checkpoint_ = checkpoint_of(p);
    try_begin(p);
  }
  // The weights and statistics are those of all workers.
  void end_meeting(Process& p) {
    if (p.stops) return leave(p, Code::kPreempted);
    enter_barrier(p, fmt::format("validation {}", p.at.epoch), new_sets_[p.at.epoch]);
  }
  void begin_next_epoch(Process& p) {
    if (is_group_ && goes_back_ && lacks_workers(p)) {
      note("an epoch did not count, because a worker was lost");
      return try_begin(p);
    }
    if (is_group_) end_epoch_in_group(p);
    if (has_snapshots()) compare_with_undisturbed(p);
    p.at.epoch++;
    begin_epoch(p);
    if (is_group_) save(p);
    try_begin(p);
  }
  void stop(Process& p) {
    p.stopping = true;
    stopping_meeting_ = p.barriers;
    enter_barrier(p, kMeeting);
  }
  void come_to_border(Process& p) {
    p.border = p.stop_after->number;
    enter_barrier(p, kMeeting);
  }
  void pass_border(Process& p, uint64_t seq, const std::vector<uint32_t>& newcomers) {
    p.passed = std::max(p.passed, border_at_[seq]);
    p.border = 0;
    p.newcomers = newcomers;
    if (!is_new(p, p.rank)) divide_rest(p, seq + 1);
    for (const uint32_t rank : newcomers) p.back.newcomer_at[rank] = p.next;
    if (newcomers.empty()) return try_begin(p);
    enter_position(p);
  }
  static bool is_new(const Process& p, uint32_t rank) { return std::ranges::count(p.newcomers, rank) > 0; }
  // The first of the workers that were there before hands its position over. If it is lost meanwhile, the next one
  // does so.
  bool hands_over(const Process& p) const {
    const auto first = std::ranges::find_if(p.live, [&](uint32_t rank) { return !is_new(p, rank); });
    return first != p.live.end() && *first == p.rank;
  }
  void learn_position(Process& p, uint64_t seq) {
    if (const auto back = back_at_.find(seq); back != back_at_.end()) return go_back(p, back->second);
    const auto position = position_at_.find(seq);
    if (position == position_at_.end()) {
      note("the position was not handed over");
      const bool is_any_old = !std::ranges::all_of(p.live, [&](uint32_t rank) { return is_new(p, rank); });
      if (is_any_old) return enter_position(p);
      p.is_to_end = true;
      return fail(p, Code::kPeerLost);
    }
    if (p.back.is_returning) return go_to_snapshot(p, position->second);
    if (!is_new(p, p.rank)) return have_settled(p);
    p.at = position->second;
    for (const uint32_t rank : p.newcomers) p.back.newcomer_at[rank] = p.at.next;
    forget_requests(p);
    take_part(p);
    if (!is_group_) return ask(p, SliceWait::kFirstWeights);
    p.next = p.begun = p.at.next;
    try_begin(p);
  }

  void enter_barrier(Process& p, const std::string& name, const std::vector<uint32_t>& stop_set_of = {}) {
    if (p.is_over()) return;
    p.in_barrier = BarrierEnter{p.incarnation(), name, p.barriers, "1 numbers", 0, stop_set_of, p.border};
    if (is_group_) p.in_barrier->unreached = std::exchange(p.group.unreached, std::nullopt);
    if (has_snapshots()) p.in_barrier->kept = p.back.newest_version(p.rank);
    ask_barrier(p);
  }
  void enter_position(Process& p) {
    if (goes_back_ && hands_over(p)) offer_to_go_back(p);
    if (workers_update() && hands_over(p)) return ask(p, SliceWait::kHandOver);
    if (p.back.is_returning && hands_over(p)) return ask(p, SliceWait::kGiveStatistics);
    enter_barrier(p, kPosition);
  }
  void ask_barrier(Process& p) {
    p.call++;
    after(delay(), [this, &p, call = p.call, event = *p.in_barrier] {
      p.asked = call;
      if (!event.joins && event.seq == released_) look_at_entry(p, event);
      send(event);
    });
  }
  // The scheduler counts the entry.
  void look_at_entry(const Process& p, const BarrierEnter& event) {
    if (p.is_lost) return;
    border_at_[event.seq] = std::max(border_at_[event.seq], event.border);
    uint64_t& slowest = slowest_at_.try_emplace(event.seq, p.next).first->second;
    slowest = std::min(slowest, p.next);
    if (event.is_torn) torn_at_.insert(event.seq);
    if (event.name == kAddresses) addresses_at_[event.seq][p.rank] = event.incarnation;
    if (event.name == kPosition && hands_over(p)) {
      position_at_.try_emplace(event.seq, p.at).first->second.next = p.next;
      if (offer_ && offer_->giver == p.rank) back_at_.try_emplace(event.seq, *offer_);
    }
    audit_->enters(p.rank);
    if (where_ == Where::kDraining && event.border == hold_) set_where(Where::kMeeting);
  }
  // An answer to a call that broke is lost.
  void answer_barrier(Process& p, const std::function<void()>& answer) {
    const std::optional<uint64_t> call = std::exchange(p.asked, std::nullopt);
    if (!call) return;
    later(p, delay(), [&p, call, answer] {
      if (p.call == *call && !p.call_broke && p.in_barrier && !p.is_over()) answer();
    });
  }

  void leave(Process& p, std::optional<Code> failure) {
    p.ended = true;
    close_group(p);
    send_from(p, Done{p.incarnation(), failure, "", p.begun, p.has_left});
  }
  void fail(Process& p, Code code) {
    if (p.crashed || p.ended || p.failed) return;
    p.failed = true;
    leave(p, code);
  }

  // ---- The workers of a job without servers do what train/trainer.cc, train/group_renewal.cc and
  // kvstore/worker/device_store.cc do, in the same order.

  struct Rollback {
    SimulatedCheckpoint to = {};
    uint32_t giver = 0;  // the rank of the worker that has it
  };

  // The first group. A job whose workers cannot make it ends.
  void begin_group(Process& p) {
    p.live.resize(workers_);
    std::iota(p.live.begin(), p.live.end(), 0);
    p.weights.assign(kBuckets, {});
    p.group.with_group = WithGroup::kBegins;
    make_group(p);
  }

  // What the answer to a barrier says about the workers.
  void learn_changes(Process& p, const ReleaseBarrier& release) {
    p.group.joined = release.joined;
    p.group.lost = release.lost;
    if (release.passed > 0) pass(p, release.passed);
  }
  static void pass(Process& p, uint64_t border) {
    p.passed = std::max(p.passed, border);
    p.border = 0;
  }
  static void note_changes(Process& p) {
    p.group.newcomers.insert(p.group.joined.begin(), p.group.joined.end());
    p.group.replaced.insert(p.group.lost.begin(), p.group.lost.end());
  }
  static bool lacks_workers(const Process& p) {
    return !std::ranges::all_of(p.group.lost, [&](uint32_t rank) { return std::ranges::count(p.live, rank) > 0; });
  }

  // ---- A step.

  void try_begin_in_group(Process& p) {
    if (p.is_over() || p.in_barrier || p.group.waits != GroupWait::kNothing) return;
    if (p.at.epoch == epochs_) return leave(p, std::nullopt);
    const bool is_held = p.held > p.passed;
    if (p.group.awaits_border) {
      p.waits_at_gate = !is_held || !p.stop_after;
      return p.waits_at_gate ? void() : stop_at_gate(p);
    }
    if (p.at.made >= p.at.steps) return await_weights(p, WithWeights::kMeets);
    p.waits_at_gate = is_held && !p.stop_after;
    if (p.waits_at_gate) return;
    if (is_held && p.next >= p.stop_after->steps) return stop_at_gate(p);
    p.begun = std::max(p.begun, p.next + 1);
    audit_->begins(time_.now(), p.incarnation(), p.rank);
    p.group.marks[p.next % 2] = {true, p.at, p.reading, p.next, p.group.statistics};
    p.batch = read_records(p);
    await_weights(p, WithWeights::kComputes);
  }
  void stop_at_gate(Process& p) {
    const bool is_at_end = std::exchange(p.group.awaits_border, false);
    if (p.stop_after->meets) p.border = p.stop_after->number;
    const bool leaves = p.must_leave && p.stop_after->meets && !is_at_end;
    await_weights(p, leaves ? WithWeights::kLeaves : WithWeights::kStops);
  }
  void await_weights(Process& p, WithWeights then) {
    p.group.waits = GroupWait::kWeights;
    p.group.with_weights = then;
    run_group(p);
  }
  // The weights of all steps that it has made are here.
  void continue_with_weights(Process& p) {
    switch (p.group.with_weights) {
      case WithWeights::kComputes:
        p.group.waits = GroupWait::kGradient;
        return later(p, 1 + random_.below(p.step_ms_max), [this, &p] { compute(p); });
      case WithWeights::kLeaves:
        note("a worker left a group");
        p.has_left = true;
        return leave(p, std::nullopt);
      case WithWeights::kStops:
        if (p.border > 0) break;
        p.stopping = true;
        stopping_meeting_ = p.barriers;
        break;
      case WithWeights::kMeets: break;
    }
    meet(p, Coming::kOnItsWay, false);
  }
  static uint64_t hash_of(const std::vector<SimulatedWeights>& buckets) {
    uint64_t hash = 0;
    for (const SimulatedWeights& bucket : buckets) hash = mix64(hash ^ mix64(bucket.version) ^ bucket.value);
    return hash;
  }
  static uint64_t gradient_of(const std::vector<int64_t>& batch, uint64_t weights) {
    uint64_t hash = weights;
    for (const int64_t record : batch) hash = mix64(hash ^ static_cast<uint64_t>(record));
    return hash;
  }
  static SimulatedWeights updated(const SimulatedWeights& bucket, uint64_t sum) {
    return {bucket.version + 1, mix64(bucket.value ^ mix64(sum))};
  }
  void compute(Process& p) {
    if (p.is_over()) return;
    const uint64_t weights = hash_of(p.weights);
    audit_->has_weights(time_.now(), p.group.end.number(), p.next, weights);
    const uint64_t gradient = gradient_of(p.batch, weights);
    p.group.statistics = mix64(p.group.statistics ^ gradient);
    push(p, gradient, kBuckets - 1);
  }
  // Gradients are ready bucket by bucket, the last layers first.
  void push(Process& p, uint64_t gradient, uint32_t bucket) {
    if (p.is_over()) return;
    if (p.group.end.is_broken()) return meet_torn(p);
    if (p.weights[bucket].version > p.next) {
      note("a bucket had its update already when its step was made again");
    } else {
      begin_operation(
          p,
          {.work = GroupOperation::Work::kSum, .bucket = bucket, .step = p.next, .values = {mix64(gradient + bucket)}});
    }
    if (bucket > 0) {
      return later(p, 1 + random_.below(4), [this, &p, gradient, bucket] { push(p, gradient, bucket - 1); });
    }
    p.next++;
    p.at.made++;
    p.group.waits = GroupWait::kNothing;
    try_begin(p);
  }

  // ---- Messages.

  void begin_operation(Process& p, GroupOperation operation) {
    p.group.open++;
    p.group.end.begin(std::move(operation));
    run_group(p);
  }
  // Carries out what the worker's end of the group has done, and what the worker waits for.
  void run_group(Process& p) {
    GroupMember& own = p.group;
    for (bool is_done = false; !is_done && !p.is_over();) {
      send_messages(p);
      const std::vector<GroupResult> results = own.end.take_results();
      for (const GroupResult& result : results) take_result(p, result);
      is_done = results.empty();
    }
    if (p.is_over()) return;
    send_messages(p);
    if (own.end.is_confused()) wrong_ = "the members of a group carried out different operations";
    limit_connecting(p);
    look_at_group(p);
  }
  void send_messages(Process& p) {
    for (GroupMessage& message : p.group.end.take_messages()) send_in_group(p, std::move(message));
  }
  void send_in_group(Process& p, GroupMessage message) {
    if (p.group.is_cut(message.to)) {
      GroupMember::Cut& cut = p.group.cuts.at(message.to);
      if (cut.is_refused && message.kind == GroupMessage::Kind::kGreeting) {
        later(p, delay(), [this, &p, to = message.to] { lose_link(p, to); });
      }
      return cut.held.push_back(std::move(message));
    }
    Millis& arrives = p.group.reaches[message.to];
    arrives = std::max({arrives, time_.now() + static_cast<Millis>(delay()), p.stuck_ms[0]});
    // A process that wakes may get the news of arrivals in another order, but reads each connection in its order.
    Process& to = of(message.to);
    std::deque<GroupMessage>& sent = p.group.sent[message.to];
    sent.push_back(std::move(message));
    time_.at(arrives, [this, &to, &sent] {
      when_awake(to, [this, &to, &sent] {
        const GroupMessage next = std::move(sent.front());
        sent.pop_front();
        if (to.ended || to.has_unwound) return;
        to.group.end.hear(next);
        run_group(to);
      });
    });
  }
  void lose_link(Process& p, Incarnation other) {
    p.group.end.lose(other);
    run_group(p);
  }
  // A connection must be open within the timeout.
  void limit_connecting(Process& p) {
    const std::optional<size_t> peer = p.group.end.connects_to();
    const std::pair<uint64_t, size_t> now(p.group.end.number(), peer.value_or(0));
    if (!peer || p.group.connecting == now) return;
    p.group.connecting = now;
    later(p, kTimeout, [this, &p, now] {
      const std::optional<size_t> still = p.group.end.connects_to();
      if (still && p.group.end.number() == now.first && *still == now.second) {
        lose_link(p, p.group.end.members()[*still]);
      }
    });
  }
  void close_group(Process& p) {
    if (!is_group_) return;
    p.group.end.break_up();
    p.group.end.close();
    send_messages(p);
    audit_->runs_in_group(p.incarnation());
  }
  // Ends the group when a member is gone, although its connections may be open.
  void watch_group(Process& p, const View& view) {
    if (!is_group_ || view.number <= p.group.view) return;
    p.group.view = view.number;
    const bool is_whole =
        std::ranges::all_of(p.group.ranks, [&](uint32_t rank) { return view.workers[rank].is_live(); });
    if (is_whole) return;
    p.group.end.break_up();
    run_group(p);
  }
  void look_at_group(Process& p) {
    GroupMember& own = p.group;
    const bool is_broken = own.end.is_broken();
    if (own.waits == GroupWait::kNothing || own.waits == GroupWait::kGradient) return;
    if (own.waits == GroupWait::kGroup && own.end.is_up() && !std::exchange(own.compares, true)) return compare(p);
    const bool is_made = own.waits != GroupWait::kGroup || (own.end.is_up() && own.compares);
    if (is_made && own.open == 0) {
      audit_->runs_in_group(p.incarnation());
      return end_wait(p, std::exchange(own.waits, GroupWait::kNothing));
    }
    if (is_broken) {
      audit_->runs_in_group(p.incarnation());
      return break_wait(p, std::exchange(own.waits, GroupWait::kNothing));
    }
    audit_->waits_in_group(p.incarnation(), own.end.members());
  }
  void end_wait(Process& p, GroupWait wait) {
    switch (wait) {
      case GroupWait::kWeights: return continue_with_weights(p);
      case GroupWait::kGroup: return have_group(p);
      case GroupWait::kShare: return meet(p, Coming::kHasShared, false);
      case GroupWait::kGive: return meet(p, Coming::kHasGoneBack, false);
      default: return;
    }
  }
  void break_wait(Process& p, GroupWait wait) {
    if (fails_) return fail_with_group(p);
    switch (wait) {
      case GroupWait::kWeights:
        if (p.group.with_weights == WithWeights::kLeaves) return fail(p, Code::kPeerLost);
        p.group.settles_again = p.group.with_weights != WithWeights::kComputes;
        return meet_torn(p);
      case GroupWait::kGroup: return miss_group(p);
      case GroupWait::kShare: return meet(p, Coming::kHasShared, true);
      case GroupWait::kGive: return meet(p, Coming::kHasGoneBack, true);
      default: return;
    }
  }
  // The scheduler will say who was lost. If it does not, both sides of a cut connection live.
  void fail_with_group(Process& p) {
    later(p, kTimeout + 1'000, [this, &p] { fail(p, Code::kPeerLost); });
  }

  void take_result(Process& p, const GroupResult& result) {
    using Work = GroupOperation::Work;
    GroupMember& own = p.group;
    own.open--;
    const std::vector<uint64_t>& values = result.values.front();
    const bool is_giver = own.end.members()[result.operation.giver] == p.incarnation();
    switch (result.operation.work) {
      case Work::kSum: {
        SimulatedWeights& bucket = p.weights[result.operation.bucket];
        audit_->adds_up(time_.now(), p.incarnation(), bucket.version, result.operation.step, own.end.members());
        bucket = updated(bucket, values[0]);
        return;
      }
      case Work::kAverage: own.statistics = mix64(values[0]); return;
      case Work::kTable: return adopt_newest(p, result.values);
      case Work::kBucket:
        if (!is_giver) note("a bucket was taken over from another worker");
        p.weights[result.operation.bucket] = {values[0], values[1]};
        return;
      case Work::kStatistics:
        if (own.is_new) own.statistics = values[0];
        return;
      case Work::kAll:
        for (uint32_t b = 0; b < kBuckets; b++) p.weights[b] = {values[2 * b], values[2 * b + 1]};
        own.statistics = values[2 * kBuckets];
        own.is_new = false;
        return;
    }
  }

  // ---- The group is made.

  void renew_group(Process& p, WithGroup then) {
    p.group.with_group = then;
    p.group.tried.clear();
    make_group(p);
  }
  void make_group(Process& p) {
    GroupMember& own = p.group;
    if (own.tried != p.live || !own.joined.empty()) own.failures = 0;
    own.tried = own.ranks = p.live;
    own.end.close();
    send_messages(p);
    if (p.live.size() > 1) return enter_barrier(p, kAddresses);
    connect(p, {p.incarnation()});
  }
  void form_group(Process& p, uint64_t seq) {
    std::vector<Incarnation> members;
    for (const auto& [rank, incarnation] : addresses_at_[seq]) {
      if (std::ranges::count(p.live, rank) > 0) members.push_back(incarnation);
    }
    if (p.live != p.group.ranks || members.size() != p.live.size()) return miss_group(p);
    connect(p, std::move(members));
  }
  void connect(Process& p, std::vector<Incarnation> members) {
    p.group.open = 0;
    p.group.compares = false;
    p.group.waits = GroupWait::kGroup;
    p.group.end.form(p.barriers, std::move(members), p.incarnation(), scheme_ == Scheme::kReduceScatter);
    run_group(p);
  }
  // All connections are open. The members tell each other what they have.
  void compare(Process& p) {
    using Work = GroupOperation::Work;
    if (p.group.with_group == WithGroup::kBegins) {
      return begin_operation(p, {.work = Work::kAll, .giver = 0, .values = all_of(p)});
    }
    if (p.group.is_new && p.group.end.members().size() == 1) return end_without_weights(p);
    std::vector<uint64_t> versions;
    for (const SimulatedWeights& bucket : p.weights) {
      versions.push_back(p.group.is_new ? 0 : bucket.version + 1);
    }
    begin_operation(p, {.work = Work::kTable, .values = versions});
  }
  static std::vector<uint64_t> all_of(const Process& p) {
    std::vector<uint64_t> values;
    for (const SimulatedWeights& bucket : p.weights) {
      values.push_back(bucket.version);
      values.push_back(bucket.value);
    }
    values.push_back(p.group.statistics);
    return values;
  }
  // As DeviceStore::adopt_newest(): the newest of each bucket is copied to all.
  void adopt_newest(Process& p, const std::vector<std::vector<uint64_t>>& versions) {
    using Work = GroupOperation::Work;
    const auto is_new = [](const std::vector<uint64_t>& of_member) { return of_member[0] == 0; };
    if (std::ranges::all_of(versions, is_new)) {
      note("the workers that had the weights were lost");
      return p.group.end.close();
    }
    std::vector<GroupOperation> operations;
    for (uint32_t b = 0; b < kBuckets; b++) {
      const auto version = [b](const std::vector<uint64_t>& of_member) { return of_member[b]; };
      const auto newest = std::ranges::max_element(versions, {}, version);
      if (version(*newest) == version(*std::ranges::min_element(versions, {}, version))) continue;
      operations.push_back({.work = Work::kBucket,
                            .bucket = b,
                            .giver = static_cast<size_t>(newest - versions.begin()),
                            .values = {p.weights[b].version, p.weights[b].value}});
    }
    if (std::ranges::any_of(versions, is_new)) {
      note("a group was made with a new worker");
      const auto first = std::ranges::find_if_not(versions, is_new);
      operations.push_back({.work = Work::kStatistics,
                            .giver = static_cast<size_t>(first - versions.begin()),
                            .values = {p.group.statistics}});
    }
    p.group.open += operations.size();
    for (GroupOperation& operation : operations) p.group.end.begin(std::move(operation));
  }
  void end_without_weights(Process& p) {
    note("the workers that had the weights were lost");
    p.is_to_end = true;
    fail(p, Code::kPeerLost);
  }
  void have_group(Process& p) {
    if (p.group.with_group == WithGroup::kBegins) {
      p.in_barrier = BarrierEnter{p.incarnation(), kInitial, p.barriers, "0 numbers", 0, {}, 0, true};
      return ask_barrier(p);
    }
    p.group.is_new = false;
    meet(p, Coming::kHasGroup, false);
  }
  void miss_group(Process& p) {
    if (fails_ || p.group.with_group == WithGroup::kBegins) return fail_with_group(p);
    if (const std::optional<size_t> peer = p.group.end.take_unreached()) {
      p.group.unreached = p.group.ranks[*peer];
      note("a worker did not reach another one");
    }
    if (p.group.failures++ == kGroupFailuresMax) {
      p.is_to_end = true;
      return fail(p, Code::kPeerLost);
    }
    note("a group could not be made at once");
    meet(p, Coming::kHasGroup, true);
  }

  // ---- The workers meet.

  void meet_torn(Process& p) {
    if (fails_) return fail_with_group(p);
    note("a group was torn");
    p.group.waits = GroupWait::kNothing;
    meet(p, Coming::kTorn, true);
  }
  void meet(Process& p, Coming coming, bool is_torn) {
    if (p.is_over()) return;
    p.group.coming = coming;
    p.in_barrier = BarrierEnter{.incarnation = p.incarnation(),
                                .name = kMeeting,
                                .seq = p.barriers,
                                .content = "1 numbers",
                                .border = p.border,
                                .is_torn = is_torn,
                                .is_whole = p.at.made >= p.at.steps,
                                .unreached = std::exchange(p.group.unreached, std::nullopt)};
    if (is_torn && p.in_barrier->is_whole) note("a group was torn at the end of an epoch");
    ask_barrier(p);
  }
  void agree(Process& p, uint64_t seq) {
    const bool is_torn = torn_at_.contains(seq);
    switch (std::exchange(p.group.coming, Coming::kOnItsWay)) {
      case Coming::kTorn: return at_border(p, WithGroup::kSteps);
      case Coming::kHasGroup: note_changes(p); return is_torn ? make_group(p) : continue_with_group(p);
      case Coming::kHasShared:
        if (!is_torn) return end_share(p);
        note("the statistics were to be shared again");
        p.group.statistics = p.group.kept_statistics;
        return at_border(p, WithGroup::kShares);
      case Coming::kHasGoneBack:
        if (!is_torn) return end_going_back(p);
        note("going back was interrupted");
        return at_border(p, WithGroup::kSteps);
      case Coming::kJoins:
        p.weights.assign(kBuckets, {});
        p.group.is_new = true;
        pass(p, border_at_[seq]);
        p.group.replaced.clear();
        note_changes(p);
        return renew_group(p, WithGroup::kWelcomes);
      case Coming::kOnItsWay: return agree_on_next(p, seq, is_torn);
    }
  }
  void agree_on_next(Process& p, uint64_t seq, bool is_torn) {
    if (border_at_[seq] > 0) pass(p, border_at_[seq]);
    p.stops = stopping_meeting_ == seq;
    if (p.stops && !is_torn) {
      if (!p.stopping) met_at_epochs_end_ = true;
      return share(p);
    }
    if (border_at_[seq] == 0 && !is_torn) {
      if (!goes_back_ || !lacks_workers(p)) return share(p);
      note("an epoch was not ended, because a worker was lost");
      p.group.awaits_border = true;
      return try_begin(p);
    }
    p.group.replaced.clear();
    p.group.is_mixed = false;
    note_changes(p);
    if (!is_torn && p.group.newcomers.empty() && p.live == p.group.ranks) return settle_in(p);
    renew_group(p, WithGroup::kSteps);
  }
  void at_border(Process& p, WithGroup then) {
    p.group.replaced.clear();
    p.group.is_mixed = false;
    note_changes(p);
    renew_group(p, then);
  }
  // All members have confirmed that they have the group.
  void continue_with_group(Process& p) {
    audit_->has_weights(time_.now(), p.group.end.number(), kNoStep, hash_of(p.weights));
    if (p.group.with_group == WithGroup::kWelcomes) return welcome(p);
    go_to(p, std::ranges::min(p.weights, {}, &SimulatedWeights::version).version);
    p.group.with_group == WithGroup::kShares ? share(p) : settle_in(p);
  }
  // As GroupRenewal::go_to().
  void go_to(Process& p, uint64_t step) {
    audit_->continues_from(p.group.end.number(), step);
    if (step == p.next + 1) {
      p.next++;
      p.at.made++;
      return;
    }
    const StepMark& mark = p.group.marks[step % 2];
    if (mark.is_set && mark.next == step) {
      note(p.next == step ? "a worker began its step again" : "a worker went back to the step before");
      p.at = mark.at;
      p.reading = mark.reading;
      p.next = mark.next;
      p.group.statistics = mark.statistics;
    } else if (step != p.next) {
      wrong_ = fmt::format("worker {} is before step {}, but the group continues with step {}", p.rank, p.next, step);
    }
    if (std::ranges::max(p.weights, {}, &SimulatedWeights::version).version == step) return;
    note("a step would mix weights of two versions");
    p.group.is_mixed = true;
  }
  void settle_in(Process& p) {
    if (p.at.made >= p.at.steps && p.group.newcomers.empty()) return have_settled(p);
    take_newcomers(p);
    const bool loses_bits = goes_back_ && p.group.is_mixed;
    if (p.live == p.at.members && p.newcomers.empty() && !loses_bits) return have_settled(p);
    divide_rest(p, p.barriers);
    p.newcomers.empty() && !loses_bits ? have_settled(p) : enter_position(p);
  }
  // A worker whose group was torn when it was about to meet the others does so twice, as Trainer::train_epoch().
  void have_settled(Process& p) {
    p.group.is_mixed = false;
    std::exchange(p.group.settles_again, false) ? settle_in(p) : try_begin(p);
  }
  static void take_newcomers(Process& p) {
    p.newcomers.assign(p.group.newcomers.begin(), p.group.newcomers.end());
    p.group.newcomers.clear();
  }
  void welcome(Process& p) {
    take_newcomers(p);
    enter_position(p);
  }

  // ---- The end of an epoch.

  void share(Process& p) {
    p.group.kept_statistics = p.group.statistics;
    p.group.waits = GroupWait::kShare;
    begin_operation(p, {.work = GroupOperation::Work::kAverage, .values = {p.group.statistics}});
  }
  void end_share(Process& p) {
    if (p.stops) return leave(p, Code::kPreempted);
    enter_barrier(p, fmt::format("validation {}", p.at.epoch));
  }
  void end_epoch_in_group(Process& p) {
    audit_->ends_epoch(time_.now(), p.at.epoch);
    const uint64_t weights = mix64(hash_of(p.weights) ^ p.group.statistics);
    audit_->has_weights(time_.now(), p.group.end.number(), kNoStep - 1 - p.at.epoch, weights);
    if (!goes_back_ || !p.at.is_original) return;
    if (weights != undisturbed(p.at.epoch, kBuckets)) wrong_ = "an epoch ended with other bits than without a loss";
    if (has_gone_back_) note("an epoch ended with the bits of one without a loss");
  }
  // The weights and statistics at the end of the epoch of a job in which nobody was lost.
  uint64_t undisturbed(uint64_t epoch, uint32_t arrays) const {
    const auto workers = static_cast<int64_t>(workers_);
    std::vector<SimulatedWeights> buckets(arrays);
    uint64_t shared = 0;
    for (uint64_t e = 0; e <= epoch; e++) {
      std::vector<uint64_t> statistics(workers_, shared);
      for (int64_t step = 0; step < divide_up(records_, workers * kBatch); step++) {
        const uint64_t weights = hash_of(buckets);
        std::vector<uint64_t> sums(arrays);
        for (int64_t rank = 0; rank < workers; rank++) {
          const data::Share share = data::equal_share(records_, rank, workers);
          std::vector<int64_t> batch;
          for (int64_t i = 0; i < kBatch && share.begin + step * kBatch + i < share.end; i++) {
            batch.push_back(share.begin + step * kBatch + i);
          }
          const uint64_t gradient = gradient_of(batch, weights);
          statistics[static_cast<size_t>(rank)] = mix64(statistics[static_cast<size_t>(rank)] ^ gradient);
          for (uint32_t b = 0; b < arrays; b++) sums[b] += mix64(gradient + b);
        }
        for (uint32_t b = 0; b < arrays; b++) buckets[b] = updated(buckets[b], sums[b]);
      }
      shared = mix64(std::accumulate(statistics.begin(), statistics.end(), uint64_t{0}));
    }
    return mix64(hash_of(buckets) ^ shared);
  }
  SimulatedCheckpoint checkpoint_of(const Process& p) const {
    SimulatedCheckpoint checkpoint{p.at, p.weights, p.group.statistics};
    checkpoint.at.next = p.next;
    return checkpoint;
  }
  // The first worker writes a checkpoint, which takes a while.
  void save(Process& p) {
    if (p.live.front() != p.rank || p.is_lost) return;
    p.group.saving = checkpoint_of(p);
    later(p, random_.below(400), [this, &p] { complete_checkpoint(p); });
  }
  void complete_checkpoint(Process& p) {
    if (p.group.saving && !p.is_lost) checkpoint_ = std::move(p.group.saving);
    p.group.saving.reset();
  }

  // ---- Going back.

  void offer_to_go_back(Process& p) {
    offer_.reset();
    if (p.group.replaced.empty() && !p.group.is_mixed) return;
    if (p.group.replaced.empty()) note("a run went back although nobody was lost");
    complete_checkpoint(p);
    if (checkpoint_->at.members.size() == p.live.size()) {
      offer_ = {.to = *checkpoint_, .giver = p.rank};
    } else {
      note("a run could not go back, because other workers had divided the records");
    }
  }
  void go_back(Process& p, const Rollback& back) {
    note("a run went back");
    has_gone_back_ = true;
    GroupMember& own = p.group;
    audit_->goes_back(p.barriers, back.to.at.epoch);
    p.at = back.to.at;
    p.at.members = p.live;
    p.at.division = p.barriers;
    p.next = p.at.next;
    p.newcomers.clear();
    take_part(p);
    own.marks = {};
    own.is_new = p.rank != back.giver;
    if (!own.is_new) {
      p.weights = back.to.buckets;
      own.statistics = back.to.statistics;
    }
    own.waits = GroupWait::kGive;
    const bool may_crash = climate_ == Climate::kCrashes || climate_ == Climate::kTwo;
    if (may_crash && random_.below(20) == 0) after(random_.below(kDelayMax), [this, &p] { crash(p); });
    const auto giver = std::ranges::find(own.ranks, back.giver) - own.ranks.begin();
    begin_operation(p, {.work = GroupOperation::Work::kAll, .giver = static_cast<size_t>(giver), .values = all_of(p)});
  }
  void end_going_back(Process& p) {
    p.group.has_gone_back = true;
    p.begun = p.next;
    p.in_barrier = BarrierEnter{p.incarnation(), kInitial, p.barriers, "0 numbers", 0, {}, 0, true};
    ask_barrier(p);
  }

  // ---- Two workers that lose each other.

  void cut_workers() {
    Process &one = any_worker(), &other = any_worker();
    const bool are_members = one.admitted && !one.is_over() && other.admitted && !other.is_over();
    if (&one == &other || !are_members || one.group.is_cut(other.incarnation())) return;
    note("two workers lost each other");
    const bool is_refused = random_.below(2) == 0;
    one.group.cuts[other.incarnation()] = {.since = time_.now(), .until = {}, .is_refused = is_refused, .held = {}};
    other.group.cuts[one.incarnation()] = {.since = time_.now(), .until = {}, .is_refused = is_refused, .held = {}};
    const int64_t noticed = is_refused ? delay() : static_cast<int64_t>(kTimeout);
    later(one, noticed, [this, &one, &other] { notice_cut(one, other); });
    later(other, noticed, [this, &one, &other] { notice_cut(other, one); });
    after(random_.below(random_.below(2) == 0 ? 3'000 : 12'000), [this, &one, &other] {
      mend_workers(one, other);
      mend_workers(other, one);
    });
  }
  void notice_cut(Process& p, const Process& other) {
    if (p.group.is_cut(other.incarnation())) lose_link(p, other.incarnation());
  }
  void mend_workers(Process& p, const Process& other) {
    GroupMember::Cut& cut = p.group.cuts.at(other.incarnation());
    cut.until = time_.now();
    for (GroupMessage& message : std::exchange(cut.held, {})) send_in_group(p, std::move(message));
  }
  // Who counts as lost because two workers do not reach each other has really been cut off from another one.
  void look_at_missed_workers(const DeclareLost& e) {
    if (e.why.find("could not connect to each other") == std::string::npos) return;
    note("of two workers that missed each other one was lost");
    const auto explains = [&](const auto& entry) {
      const GroupMember::Cut& cut = entry.second;
      return cut.since + kTimeout <= time_.now() && (!cut.until || *cut.until + 2 * kTimeout >= time_.now());
    };
    const Process& p = seated(e.member.rank);
    if (std::ranges::none_of(p.group.cuts, explains))
      wrong_ = "a worker was lost that was not cut off from another one";
  }

  // ---- Servers that are lost and replaced (simulated_server_loss.h).

  [[nodiscard]] bool has_snapshots() const { return snapshot_every_ > 0; }
  void draw_snapshots();
  void begin_return_audit(Millis absent);
  void begin_servers();
  void link_to_servers(Process& p);
  void see_servers(const View& view);
  void look_at_servers(bool is_running);
  void look_at_disks();
  void look_at_return(const ReleaseBarrier& e);
  void compare_with_undisturbed(const Process& p);
  // What happens to them.
  void fault_with_servers();
  Process& any_server();
  void lose_two(Process& one, Process& other);
  void note_lost_server(const Process& p);
  void note_killed_here();
  void continue_without_server(Process& p);
  void start_server(uint32_t rank);
  void refuse_server(Process& p);
  void admit_server(Process& p, uint64_t restores);
  // What they do.
  void follow_view(Process& p, const View& view);
  void carry_out_restore(Process& p, const SimulatedServer::Restored& restored);
  void write_snapshots(Process& p);
  void report(Process& p, Event event);
  void report_snapshots(Process& p);
  void report_again(Process& p);
  // What workers do.
  void keep_point(Process& p);
  void count_statistics(Process& p);
  void add_content(Process& p, SliceRequest& request, SliceWait wait) const;
  void take_weights(Process& p);
  void take_statistics(Process& p);
  void send_to_link(Process& p, SliceRequest request, uint32_t place);
  void send_again(Process& p, const SliceAnswer& answer);
  void watch_servers(Process& p, const View& view);
  void break_up(Process& p);
  void give_up(Process& p);
  static void forget_requests(Process& p);
  void meet_others(Process& p, ReturnStage stage, bool is_torn);
  void have_shared(Process& p);
  bool agree_with_servers(Process& p, const ReleaseBarrier& release);
  void follow_servers(Process& p, const ReleaseBarrier& release);
  void agree_on_position(Process& p);
  SimulatedPosition adapted(SimulatedPosition at, const std::vector<uint32_t>& members) const;
  void go_to_snapshot(Process& p, const SimulatedPosition& position);
  void have_snapshot(Process& p, Step open);
  void continue_from_snapshot(Process& p);

  // ---- The records of an epoch. Without the same weights, only numbers of steps.

  void begin_epoch(Process& p) {
    p.at.rest = {};
    p.at.made = has_same_weights() ? 0 : std::max<int64_t>(p.at.made - p.at.steps, 0);
    p.at.members = p.live;
    p.at.division = p.barriers;
    p.at.is_original = p.at.is_original && p.live.size() == workers_;
    const auto workers = static_cast<int64_t>(p.live.size());
    p.at.steps = divide_up(records_, workers * kBatch);
    take_part(p);
  }
  // As the workers do: see divide_rest_among_live() in train/trainer.cc.
  void divide_rest(Process& p, uint64_t division) {
    if (p.live == p.at.members && p.newcomers.empty()) return;
    const auto before = static_cast<int64_t>(p.at.members.size()), now = static_cast<int64_t>(p.live.size());
    if (has_changed_) p.at.is_original = false;
    if (before != now) {
      add_read(p.at, before);
      // As EpochClock::slowest_position().
      const int64_t lead = has_same_weights() ? 0 : static_cast<int64_t>(p.next - slowest_at_.at(division - 1));
      p.at.steps = divides_records() ? divide_up(data::count_left(p.at.rest), now * kBatch)
                                     : divide_up((p.at.steps - p.at.made + lead) * before, now);
      p.at.made = lead;
    }
    p.at.members = p.live;
    p.at.division = division;
    take_part(p);
  }
  void add_read(SimulatedPosition& at, int64_t workers) const {
    data::EpochRest& rest = at.rest;
    const int64_t records = rest.read.empty() ? records_ : data::count_left(rest);
    rest.read.push_back({.shares = data::equal_shares(records, workers), .records = at.made * kBatch});
  }
  // The worker's part of the position's records.
  void take_part(Process& p) {
    p.reading.clear();
    if (!divides_records()) return;
    std::vector<int64_t> left(static_cast<size_t>(records_));
    std::iota(left.begin(), left.end(), 0);
    if (!p.at.rest.read.empty()) {
      left = data::records_left(p.at.rest, 0, {.shuffle = false}, [](int64_t) { return 1; });
    }
    const auto own = std::ranges::find(p.at.members, p.rank) - p.at.members.begin();
    const data::Share share =
        data::equal_share(static_cast<int64_t>(left.size()), own, static_cast<int64_t>(p.at.members.size()));
    for (int64_t i = share.begin + p.at.made * kBatch; i < share.end; i++) {
      p.reading.push_back(left[static_cast<size_t>(i)]);
    }
    std::ranges::reverse(p.reading);
    audit_->divides(time_.now(), p.incarnation(), p.at.epoch, p.at.division, p.at.members.size(), p.reading);
  }
  // The next batch. A worker whose part is at its end reads records of it again, which does not count.
  std::vector<int64_t> read_records(Process& p) {
    std::vector<int64_t> batch;
    while (std::ssize(batch) < kBatch && !p.reading.empty()) {
      batch.push_back(p.reading.back());
      p.reading.pop_back();
    }
    if (divides_records()) audit_->reads(time_.now(), p.incarnation(), p.rank, p.next, p.at.epoch, batch);
    return batch;
  }
  static int64_t divide_up(int64_t count, int64_t by) { return (count + by - 1) / by; }

  // ---- What the scheduler decides.

  // Where the job is, as its processes see it.
  enum class Where {
    kGathering,
    kPreparing,
    kStarting,
    kRunning,
    kHolding,
    kDraining,  // on the way to a border
    kMeeting,   // somebody is at the border
    kStopping,
    kFinishing,
    kFailing,
    kEnded,
  };
  bool is_near_border() const {
    return where_ == Where::kHolding || where_ == Where::kDraining || where_ == Where::kMeeting;
  }
  void set_where(Where where) {
    if (std::exchange(where_, where) == where) return;
    if (targets_.erase(where) == 0) return;
    if (where == Where::kHolding && climate_ == Climate::kCrashes) return lose_first();
    after(random_.below(where == Where::kStarting ? 15 : 60), [this] { fault(); });
  }
  std::string_view loss_here() const {
    switch (where_) {
      case Where::kPreparing: return "a process was lost while preparing";
      case Where::kRunning: return "a process was lost while running";
      case Where::kHolding: return "a process was lost while holding";
      case Where::kDraining: return "a process was lost while draining";
      case Where::kMeeting: return "a process was lost while meeting";
      case Where::kStopping: return "a process was lost while stopping";
      case Where::kFinishing: return "a process was lost while finishing";
      default: return "a process was lost while failing";
    }
  }

  Process& of(Incarnation id) { return processes_.at(1'000 - id); }

  void send(const Event& event) {
    if (is_down_) return;
    if (const auto* done = std::get_if<Done>(&event)) note_end(of(done->incarnation));
    std::vector<Effect> out;
    machine_->on(time_.now(), event, out);
    if (journal_) return hold_back(event, std::move(out));
    for (const Effect& effect : out) std::visit([this](const auto& e) { carry_out(e); }, effect);
  }

  // ---- A scheduler that comes back.

  struct AnswerDone {
    Incarnation to = 0;
  };
  using Told = std::variant<Effect, AnswerDone>;

  void hold_back(const Event& event, std::vector<Effect> effects) {
    std::vector<Told> held(effects.begin(), effects.end());
    if (const auto* done = std::get_if<Done>(&event)) held.emplace_back(AnswerDone{done->incarnation});
    const bool is_silent = held.empty();
    const auto record = is_silent ? std::nullopt : journal_->add(machine_->decisions(), std::move(held));
    if (record) {
      unwritten_.push_back(*record);
      if (kills_ < kKillsMax && random_.below(60) == 0) return kill_scheduler();
      after(random_.below(12), [this, life = life_, number = record->number] {
        if (life == life_) write(number);
      });
    }
    release();
  }
  // The records up to this number are in the file, and the scheduler knows it.
  void write(uint64_t number) {
    while (!unwritten_.empty() && unwritten_.front().number <= number) {
      for (const auto& [key, text] : unwritten_.front().changes) written_[key] = text;
      unwritten_.pop_front();
    }
    journal_->is_durable(number);
    release();
  }
  void release() {
    const uint64_t life = life_;
    while (life == life_) {
      const std::optional<Told> held = journal_->take();
      if (!held) return;
      if (const auto* done = std::get_if<AnswerDone>(&*held)) of(done->to).done.reset();
      if (const auto* effect = std::get_if<Effect>(&*held)) {
        std::visit([this](const auto& e) { carry_out(e); }, *effect);
      }
    }
  }

  // Some of the newest records are in the file although the scheduler could not learn it. Nobody hears of what they
  // explain, so the processes must learn it later; only the bookkeeping of this simulation learns it now.
  void kill_scheduler() {
    if (is_down_ || kills_ == kKillsMax || has_ended_) return;
    kills_++;
    life_++;
    trace_ += fmt::format("{} killed\n", time_.now());
    note(killed_here());
    if (has_snapshots()) note_killed_here();
    for (Process& p : processes_) {
      p.stream = p.awaits_answer = false;
      p.call_broke = p.in_barrier.has_value();
      p.asked.reset();
      p.call++;
    }
    const int64_t more = random_.below(std::ssize(unwritten_) + 1);
    if (more > 0) note("the scheduler was killed after a record that explains what nobody has heard");
    if (more < std::ssize(unwritten_)) note("the scheduler was killed before a record");
    for (int64_t i = 0; i < more; i++) {
      for (const auto& [key, text] : unwritten_.front().changes) written_[key] = text;
      journal_->is_durable(unwritten_.front().number);
      unwritten_.pop_front();
    }
    unwritten_.clear();
    while (const std::optional<Told> held = journal_->take()) {
      const auto* effect = std::get_if<Effect>(&*held);
      if (effect != nullptr && !is_answer(*effect)) std::visit([this](const auto& e) { carry_out(e); }, *effect);
    }
    unanswered_.clear();  // the commands that have asked fail
    is_down_ = true;
    after(100 + random_.below(kAbsenceMax - 100), [this] { return_scheduler(); });
  }
  static bool is_answer(const Effect& effect) {
    return std::holds_alternative<Start>(effect) || std::holds_alternative<Prepare>(effect) ||
           std::holds_alternative<Admit>(effect) || std::holds_alternative<Refuse>(effect) ||
           std::holds_alternative<Reject>(effect) || std::holds_alternative<RepeatBarrier>(effect);
  }
  std::string_view killed_here() const {
    switch (where_) {
      case Where::kGathering: return "the scheduler was killed while gathering";
      case Where::kPreparing: return "the scheduler was killed while preparing";
      case Where::kStarting: return "the scheduler was killed while starting";
      case Where::kRunning: return "the scheduler was killed while running";
      case Where::kHolding: return "the scheduler was killed while holding";
      case Where::kDraining: return "the scheduler was killed while draining";
      case Where::kMeeting: return "the scheduler was killed while meeting";
      case Where::kStopping: return "the scheduler was killed while stopping";
      case Where::kFinishing: return "the scheduler was killed while finishing";
      default: return "the scheduler was killed while failing";
    }
  }
  void return_scheduler() {
    is_down_ = false;
    trace_ += fmt::format("{} returned\n", time_.now());
    machine_ = std::make_unique<Machine>(settings_, time_.now());
    journal_.emplace(written_);
    if (!written_.empty()) {
      if (!machine_->restore(written_, time_.now())) return_failure_ = "a scheduler could not read its decisions";
      if (machine_->decisions() != written_) return_failure_ = "a scheduler has other decisions than it has read";
    }
    if (kills_ == kKillsMax) note("the scheduler was killed three times");
    for (Process& p : processes_) {
      p.call_broke = p.in_barrier.has_value();
      if (p.crashed) continue;
      if (p.asks) call_to_join(p);
      if (p.done) send_from(p, *p.done);
      if (p.admitted && !p.ended) later(p, 100 + random_.below(400), [this, &p] { open_stream(p); });
      if (p.admitted && p.works && drained_.contains(p.rank)) {
        send_from(p, LeaveAsked{.rank = p.rank, .by_signal = true});
      }
    }
    if (is_asked_to_stop_) send(StopRequested{"a signal"});
  }

  // ---- What the scheduler tells.

  void note_end(Process& p) {
    p.is_gone = true;
    audit_->has_ended(p.incarnation());
  }

  void carry_out(const Start& e) {
    set_where(Where::kStarting);
    View view{.workers = std::vector<Seat>(seats_, {.incarnation = 0, .state = Seat::State::kEmpty})};
    for (const Node& node : e.nodes) {
      if (node.member.role == Role::kWorker) view.workers[node.member.rank] = Seat{.incarnation = node.incarnation};
      if (node.member.role == Role::kServer) view.servers.push_back({.incarnation = node.incarnation});
    }
    const bool begins_again = has_snapshots() && !places_.empty();  // the scheduler was killed before it knew
    for (uint32_t place = 0; place < places() && !begins_again; place++) {
      places_.emplace_back(place, view, slices_on(place), *audit_);
    }
    see(view);
    if (has_snapshots() && !begins_again) begin_servers();
    send(Ready{stop_set_of_});
  }
  std::vector<SimulatedServer::SliceKind> slices_on(uint32_t place) const {
    std::vector<SimulatedServer::SliceKind> slices;
    const std::vector<std::vector<uint32_t>> slices_of = slices_of_places();
    for (const uint32_t slice : slices_of[place]) {
      const bool is_statistic = slice == parameter_slices();
      slices.push_back({slice, is_statistic ? bsp(seats_) : policy_, is_statistic});
    }
    return slices;
  }
  void become_member(Process& p) {
    if (std::exchange(p.admitted, true)) return;
    if (p.works) p.seat.admit(p.rank, !p.is_late);
    open_stream(p);
    heartbeat(p);
  }
  // Whether an answer to a request to join reaches the process: its call is at this scheduler, not at the one before.
  bool is_answered(Process& p) {
    const bool is_there = std::exchange(p.awaits_answer, false);
    if (is_there) p.asks.reset();
    return is_there;
  }
  // It opens its data, which takes a while, and joins once more.
  void carry_out(const Prepare& e) {
    set_where(Where::kPreparing);
    Process& p = of(e.node.incarnation);
    if (!is_answered(p)) return;
    later(p, delay(), [this, &p] {
      become_member(p);
      later(p, random_.below(3'000), [this, &p] {
        p.prepared = true;
        if (!p.ended) join(p);
      });
    });
  }
  void carry_out(const Admit& e) {
    Process& p = of(e.node.incarnation);
    if (!is_answered(p)) return;
    if (e.restores) return admit_server(p, *e.restores);
    if (p.is_late) return admit_late(p, e.node.member.rank);
    set_where(Where::kRunning);
    if (has_snapshots() && p.works) link_to_servers(p);
    later(p, delay(), [this, &p] {
      become_member(p);
      if (!p.is_worker() || std::exchange(p.trains, true)) return;
      if (is_group_) return begin_group(p);
      p.in_barrier = BarrierEnter{p.incarnation(), kInitial, p.barriers, "0 numbers", 0, {}, 0, true};
      ask_barrier(p);
    });
  }
  // It prepares itself, and then asks for a border.
  void admit_late(Process& p, uint32_t rank) {
    if (p.seat.is_former() && p.rank != rank) note("a lost worker got another seat");
    p.rank = rank;
    p.has_seat = true;
    if (has_snapshots()) link_to_servers(p);
    p.group.coming = Coming::kJoins;
    audit_->admits(time_.now(), p.incarnation(), rank);
    later(p, delay(), [this, &p] {
      if (p.ended) return;
      become_member(p);
      later(p, random_.below(1'500), [this, &p] {
        if (p.is_over()) return;
        p.in_barrier = BarrierEnter{.incarnation = p.incarnation(), .name = "joining", .joins = true};
        ask_barrier(p);
      });
    });
  }
  void carry_out(const Tell& e) {
    Process& p = of(e.to);
    p.is_to_end = p.is_to_end || std::holds_alternative<LeaveJob>(e.notice);
    if (const auto* view = std::get_if<View>(&e.notice)) see(*view);
    if (const auto* hold = std::get_if<Hold>(&e.notice); hold != nullptr && hold->number > hold_) {
      hold_ = hold->number;
      set_where(Where::kHolding);
    }
    if (const auto* stop = std::get_if<StopAfter>(&e.notice); stop != nullptr && where_ == Where::kHolding) {
      set_where(stop->meets ? Where::kDraining : Where::kStopping);
    }
    if (std::holds_alternative<Finish>(e.notice)) set_where(Where::kFinishing);
    if (std::holds_alternative<StopJob>(e.notice)) set_where(Where::kFailing);
    if (!p.stream) return;  // lost with the stream
    for (int64_t copies = doubles() ? 2 : 1; copies > 0; copies--) {
      const int64_t on_its_way = copies == 2 ? random_.below(600) : delay(), after_sleep = random_.below(200);
      after(on_its_way, [this, &p, after_sleep, notice = e.notice] {
        // What a process has to do when it wakes may come before the news.
        later(p, time_.now() < p.asleep_until ? sleep_left(p) + after_sleep : 0, [this, &p, notice] {
          if (!p.ended) std::visit([&](const auto& n) { hear(p, n); }, notice);
        });
      });
    }
  }
  int64_t sleep_left(const Process& p) const { return static_cast<int64_t>(p.asleep_until - time_.now()); }
  void see(const View& view) {
    if (places_.empty() || (seen_view_ && view.number <= *seen_view_)) return;
    seen_view_ = view.number;
    if (has_snapshots()) see_servers(view);
    audit_->scheduler_has(time_.now(), view.number, SimulatedServer::seen(view));
  }
  void hear(Process& p, const Hold& n) {
    if (n.number > p.held) p.stop_after.reset();
    p.held = std::max(p.held, n.number);
    send_from(p, Held{p.incarnation(), n.number, p.begun});
  }
  void hear(Process& p, const StopAfter& n) {
    if (n.number < p.held) return;
    p.held = n.number;
    p.stop_after = n;
    if (p.waits_at_gate) try_begin(p);
  }
  void hear(Process& p, const LeaveJob&) {
    p.must_leave = true;
    if (p.waits_at_gate) try_begin(p);
  }
  void hear(Process& p, const StopJob& n) {
    last_heard_ms_ = time_.now();
    heard_.push_back(n.message);
    fail(p, n.code);
  }
  void hear(Process& p, const Finish&) { leave(p, std::nullopt); }
  void hear(Process& p, const View& view) {
    if (p.works) {
      if (!p.seat.loses_by(view)) return has_snapshots() ? watch_servers(p, view) : watch_group(p, view);
      note("a lost process was told so");
      return lose_seat(p);
    }
    if (has_snapshots()) return follow_view(p, view);
    deliver(p.rank, view);
    p.viewed = std::max(p.viewed, view.number);
    send_from(p, Viewed{p.incarnation(), view.number});
  }

  // Workers that begin with this barrier are where the others are.
  void let_in(const ReleaseBarrier& e) {
    for (Process& p : processes_) {
      const bool waits = p.in_barrier && p.in_barrier->joins && !p.takes_part && !p.is_gone && p.admitted;
      if (!waits || p.is_lost || std::ranges::count(e.joined, p.rank) == 0) continue;
      p.takes_part = true;
      p.barriers = e.seq;
      p.in_barrier->name = kMeeting;
      p.in_barrier->seq = e.seq;
      p.back.restores = seen_.restores;
    }
  }
  void carry_out(const ReleaseBarrier& e) {
    released_ = e.seq + 1;
    replies_[e.seq] = e;
    audit_->releases();
    let_in(e);
    const auto inside = [](const Process& p) { return p.in_barrier && !p.in_barrier->stop_set_of.empty(); };
    if (const auto one = std::ranges::find_if(processes_, inside); one != processes_.end()) {
      regroup(one->in_barrier->stop_set_of, e.seq);
    }
    if (e.restored) look_at_return(e);
    if (is_group_ || has_snapshots() ? e.passed > 0 : border_at_[e.seq] > 0) look_at_border(e);
    for (Process& p : processes_) {
      if (!p.is_worker() || p.ended || p.is_lost) continue;
      if (!p.in_barrier && !p.crashed) early_ = true;
      pass_barrier(p, e.seq);
    }
  }
  void regroup(const std::vector<uint32_t>& group_of, uint64_t seq) {
    set_of_ = group_of;
    Step step = 0;
    for (SimulatedServer& place : places_) step = place.regroup(group_of);
    audit_->begins_rounds(group_of, step);
    begins_at_[seq] = step;
    regrouped_++;
  }
  // The workers of a group are all between the same two steps.
  void look_at_border(const ReleaseBarrier& e) {
    note("a border was passed");
    set_where(Where::kRunning);
    if (stands_still_ && !was_asked_to_stop_) {
      const auto is_vacant = [&](uint32_t rank) { return std::ranges::count(e.gone, rank) > 0; };
      has_gone_on_without_ = has_gone_on_without_ || std::ranges::any_of(vacant_, is_vacant);
    }
    std::map<uint32_t, std::set<uint64_t>> next;
    for (const Process& p : processes_) {
      const bool is_old = p.is_worker() && !p.is_over() && !p.is_lost && std::ranges::count(e.joined, p.rank) == 0;
      if (is_old && !is_group_) next[policy_.group_of[p.rank]].insert(p.next);
    }
    uneven_ = uneven_ || std::ranges::any_of(next, [](const auto& of_group) { return of_group.second.size() > 1; });
  }
  void carry_out(const RepeatBarrier& e) { pass_barrier(of(e.to), e.seq); }
  void pass_barrier(Process& p, uint64_t seq) {
    answer_barrier(p, [this, &p, seq] {
      if (p.barriers != seq) early_ = true;
      p.barriers++;
      if (const auto begins = begins_at_.find(seq); begins != begins_at_.end()) p.next = p.begun = begins->second;
      after_barrier(p, *std::exchange(p.in_barrier, std::nullopt), replies_.at(seq));
    });
  }
  void carry_out(const Refuse& e) {
    Process& p = of(e.incarnation);
    if (!is_answered(p)) return;
    if (has_snapshots() && !p.works) return refuse_server(p);
    if (p.is_over() || !p.is_late) return;
    note(p.seat.is_former() ? "a lost worker got no seat again" : "a worker was turned away");
    if (e.why.find("within 10 minutes") != std::string::npos) note("a worker was lost too often");
    p.seat.refuse();
    p.ended = true;
  }
  void carry_out(const Reject& e) {
    Process& p = of(e.incarnation);
    if (p.crashed || p.ended) return;
    note("a worker was turned away");
    p.ended = p.is_late;
  }
  void carry_out(const DeclareJoined& e) {
    trace_ += fmt::format("{} joined {}\n", time_.now(), to_text(e.member));
    if (e.member.role == Role::kServer) return note("a lost server was replaced");
    const auto is_it = [&](const Process& p) {
      return p.is_late && !p.takes_part && p.admitted && !p.is_lost && p.rank == e.member.rank;
    };
    const auto p = std::ranges::find_if(processes_, is_it);
    if (p != processes_.end() && p->seat.is_former()) note("a lost worker took part again");
    const bool is_replacement = vacant_.erase(e.member.rank) > 0;
    has_changed_ = has_changed_ || !is_replacement;
    note(is_replacement ? "a lost worker was replaced" : "a worker joined");
    audit_->is_taken(e.member.rank);
  }
  void carry_out(const DeclareRestore& e) { trace_ += fmt::format("{} restored {}\n", time_.now(), e.version); }
  void carry_out(const DeclareDropped& e) {
    trace_ += fmt::format("{} dropped {}: {}\n", time_.now(), to_text(e.member), e.why);
    note("a joining worker was dropped");
    for (Process& p : processes_) {
      if (p.is_late && !p.takes_part && p.rank == e.member.rank && p.has_seat && !p.ended) p.is_lost = true;
    }
  }
  void carry_out(const DeclareLost& e) {
    trace_ += fmt::format("{} lost {}: {}\n", time_.now(), to_text(e.member), e.why);
    lost_ = e.member;
    note(loss_here());
    look_at_missed_workers(e);
    const bool is_worker = e.member.role == Role::kWorker;
    Process& p = is_worker ? seated(e.member.rank) : serving(e.member.rank);
    p.is_lost = e.continues;
    p.is_to_end = true;
    if (p.is_lost) p.lost_ms = time_.now();
    has_lost_server_ = has_lost_server_ || (!is_worker && !e.continues);
    has_lost_worker_ = has_lost_worker_ || is_worker;
    if (p.is_lost && !p.crashed) note("a process was lost that lives");
    if (e.continues) is_worker ? continue_without(p) : continue_without_server(p);
    is_right_one_lost_ = is_lost_by_rule(e.member);
    since_first_cut_ms_ = time_.now() - first_cut();
  }
  Process& serving(uint32_t rank) {
    return rank < seen_.servers.size() ? of(seen_.servers[rank].incarnation) : processes_[workers_ + rank];
  }
  // The process that has this rank.
  Process& seated(uint32_t rank) {
    for (auto p = processes_.rbegin(); p != processes_.rend(); ++p) {
      if (p->is_worker() && p->rank == rank && !p->is_lost) return *p;
    }
    return processes_[rank];
  }
  void continue_without(Process& p) {
    note("a job continued without a lost worker");
    for (const Process& other : processes_) {
      if (other.works && !other.takes_part && other.in_barrier && !other.is_over()) {
        note("a worker was lost while another one was about to begin");
        break;
      }
    }
    audit_->has_lost(p.incarnation());
    if (!waits_) return;
    vacant_.insert(p.rank);
    audit_->is_vacant(time_.now(), p.rank);
    const int64_t tries = random_.below(8) == 0 ? 0 : 3;
    for (int64_t i = 0; i < tries; i++) {
      after(i * 2'500 + random_.below(1'000), [this, rank = p.rank] {
        if (vacant_.contains(rank)) start_late(rank);
      });
    }
  }
  void carry_out(const DeclareLeft& e) {
    trace_ += fmt::format("{} left {}\n", time_.now(), to_text(e.member));
    note("a worker left");
    has_changed_ = true;
    for (const Process& p : processes_) {
      if (p.has_left && p.rank == e.member.rank) audit_->has_left(p.incarnation());
    }
    unanswered_.erase(e.member.rank);
  }
  void carry_out(const RefuseLeave& e) {
    trace_ += fmt::format("{} {}\n", time_.now(), e.why);
    note("a request to leave was refused");
    unanswered_.erase(e.rank);
  }
  void carry_out(const LogMissing& e) { trace_ += fmt::format("{} missing {}\n", time_.now(), to_text(e.missing)); }
  void carry_out(const End& e) {
    has_ended_ = true;
    failure_ = e.failure;
    has_lacked_replacement_ = e.failure && e.failure->message.find("--rejoin-timeout") != std::string::npos;
    if (has_snapshots()) look_at_disks();
    has_lacked_snapshots_ = e.failure && e.failure->message.find("--snapshot-every") != std::string::npos;
    trace_ += fmt::format("{} end {}\n", time_.now(), e.failure ? e.failure->message : "well");
    if (!e.failure) note("a job ended well");
    const bool lacks_server = has_lacked_replacement_ && e.failure->message.starts_with("server");
    if (lacks_server) note("nobody took the place of a lost server");
    if (has_lacked_replacement_ && !lacks_server) note("nobody took the place of a lost worker");
    if (e.failure && e.failure->code == Code::kPreempted && has_trained_) note("a job was stopped");
  }

  Outcome outcome() {
    Outcome result;
    result.ended = has_ended_;
    result.failure = failure_;
    result.heard = heard_;
    result.barrier_was_early = early_;
    result.stopping_ms = time_.now() - stop_ms_;
    result.met_at_epochs_end = met_at_epochs_end_;
    result.reconnects = reconnects_;
    result.regrouped = regrouped_;
    result.cut_links = cut_count_;
    result.mended_links = mended_count_;
    result.lost = lost_;
    result.is_right_one_lost = is_right_one_lost_;
    result.since_first_cut_ms = since_first_cut_ms_;
    result.steps_of_set.resize(seats_);
    result.trace = trace_;
    result.border_was_uneven = uneven_;
    result.unanswered = unanswered_;
    result.has_trained = has_trained_;
    result.has_lost_server = has_lost_server_;
    result.has_gone_on_without = has_gone_on_without_;
    result.has_lacked_replacement = has_lacked_replacement_;
    result.broken = refused_wrongly_ ? "a server refused a worker that has its seat" : audit_->broken();
    if (result.broken.empty() && returns_) result.broken = returns_->broken();
    if (result.broken.empty()) result.broken = wrong_;
    result.has_lacked_snapshots = has_lacked_snapshots_ && !may_lack_snapshots_;
    result.may_lack_snapshots = has_lacked_snapshots_ && may_lack_snapshots_;
    result.paths = paths_;
    for (const auto& [path, count] : audit_->paths()) result.paths[path] += count;
    result.has_survivor = std::ranges::any_of(processes_, [&](const Process& p) {
      return p.is_worker() && p.failed && !p.crashed && !p.is_lost && !p.is_to_end;
    });
    if (crashed_ != nullptr && !heard_.empty()) result.detection_ms = last_heard_ms_ - crashed_ms_;
    for (const Process& p : processes_) {
      // The scheduler's process refuses a late one when the job has ended, and lost ones may still sleep. One that
      // comes back just before the end does not wait for workers that were about to join.
      const bool may_hear = p.takes_part || (p.admitted && kills_ == 0);
      const bool has_heard = may_hear && time_.now() >= std::max(p.asleep_until, p.lost_ms) + 1'500;
      if (!p.crashed && !p.ended && has_heard) result.survivors_ended = false;
      if (p.is_worker() && p.ended && !p.has_left && !p.crashed && !p.is_lost) {
        result.steps_of_set[set_of_[p.rank]].push_back(p.next);
      }
      if (p.stop_after && !p.stop_after->meets) result.was_stopped = true;
      if (p.is_worker() && p.ended && p.at.epoch == epochs_) result.has_finished = true;
    }
    return result;
  }

  RandomStream random_;
  Disturbance disturbance_ = Disturbance::kCalm;
  std::optional<Climate> climate_;
  Scheme scheme_ = Scheme::kBsp;
  bool one_lacks_index_ = false;  // the last worker: all are prepared before the job starts
  uint32_t workers_ = 1, servers_ = 0, seats_ = 1;
  bool is_group_ = false;                      // whether the job has no servers
  bool fails_ = false;                         // whether a lost worker ends the job
  bool waits_ = false, stands_still_ = false;  // for a worker in the place of a lost one
  bool has_gone_back_ = false;
  bool has_changed_ = false;  // whether workers have left, or have joined without replacing another
  bool goes_back_ = false;    // when a lost worker has been replaced, for the same bits
  uint64_t epochs_ = 0;
  int64_t records_ = 0;
  Policy policy_;
  std::vector<uint32_t> stop_set_of_;            // as in Ready
  std::vector<uint32_t> set_of_;                 // the current set of each worker; never empty
  std::vector<std::vector<uint32_t>> new_sets_;  // by epoch; they hold from its end on
  std::map<uint64_t, uint64_t> begins_at_;       // by barrier with new sets: the step from which all continue
  uint64_t regrouped_ = 0;
  SimulatedTime time_;
  Settings settings_;
  std::unique_ptr<Machine> machine_;
  std::optional<Journal<Told>> journal_;         // of a scheduler that can come back
  Decisions written_;                            // what is in its file
  std::deque<Journal<Told>::Record> unwritten_;  // records that may not be in the file yet
  bool is_down_ = false;
  uint64_t life_ = 0, kills_ = 0;
  bool has_ended_ = false;
  bool is_asked_to_stop_ = false;  // the whole job, by a signal
  std::set<uint32_t> drained_;     // ranks of the workers whose processes got a signal to leave
  std::string return_failure_;
  std::optional<simulated::Audit> audit_;
  uint64_t snapshot_every_ = 0;  // 0: servers take no snapshots, and a lost server ends the job
  bool may_lose_scheduler_ = false;
  int64_t slow_one_in_ = 1;  // one in so many reports of servers comes late, and one in ten times as many requests
  // What each process of a server has in its files, by its rank, the newest last. One that takes the place of another
  // one takes its files away.
  std::vector<std::deque<SimulatedSnapshots::Disk>> disks_;
  std::optional<simulated::ReturnAudit> returns_;
  View seen_;                                 // the scheduler's newest
  std::map<uint64_t, uint64_t> restores_at_;  // by barrier: as in View, when the workers went back
  bool has_lost_worker_ = false, may_lack_snapshots_ = false, has_lacked_snapshots_ = false;
  std::deque<SimulatedServer> places_;
  std::deque<Process> processes_;
  Where where_ = Where::kGathering;
  std::multiset<Where> targets_;  // where the next faults come
  uint64_t hold_ = 0;             // number of the newest Hold
  std::optional<uint64_t> seen_view_;
  std::map<std::string_view, uint64_t> paths_;
  std::set<uint32_t> vacant_;  // the ranks of lost workers that nobody has replaced
  bool has_gone_on_without_ = false, has_lacked_replacement_ = false, has_lost_server_ = false;
  bool refused_wrongly_ = false;
  bool was_asked_to_stop_ = false;
  std::set<uint32_t> unanswered_;
  bool has_trained_ = false;
  Process* crashed_ = nullptr;
  Millis crashed_ms_ = 0, last_heard_ms_ = 0, stop_ms_ = 0;
  std::vector<std::string> heard_;
  uint64_t cut_count_ = 0, mended_count_ = 0;
  std::optional<Member> lost_;
  bool is_right_one_lost_ = false;
  Millis since_first_cut_ms_ = 0;
  std::optional<StopJob> failure_;
  uint64_t released_ = 0;                              // number of barriers
  std::map<uint64_t, ReleaseBarrier> replies_;         // by barrier
  std::map<uint64_t, uint64_t> border_at_;             // by barrier: the border of a worker that came to it; 0: none
  std::map<uint64_t, uint64_t> slowest_at_;            // by barrier: the smallest next step
  std::map<uint64_t, uint64_t> ended_at_;              // by epoch: the next step of a worker that has ended it
  std::map<uint64_t, SimulatedPosition> position_at_;  // by barrier: the position that a worker has handed over
  std::set<uint64_t> torn_at_;                         // barriers to which a worker came in the middle of a step
  std::map<uint64_t, std::map<uint32_t, Incarnation>> addresses_at_;  // by barrier and rank
  std::optional<SimulatedCheckpoint> checkpoint_;                     // the newest; at first the beginning of the run
  std::optional<Rollback> offer_;                                     // of the worker that hands over
  std::map<uint64_t, Rollback> back_at_;                              // by barrier
  std::string wrong_;  // what is wrong and only shows in a group; empty: nothing
  bool uneven_ = false;
  bool early_ = false, met_at_epochs_end_ = false;
  std::optional<uint64_t> stopping_meeting_;  // number of the meeting
  uint64_t reconnects_ = 0;
  std::string trace_;
};

}  // namespace dtrain::sync::membership

#include "simulated_server_loss.h"

namespace dtrain::sync::membership {

inline Outcome simulate(uint64_t seed, Disturbance disturbance) {
  return Simulation(seed, disturbance).run();
}
inline Outcome simulate(uint64_t seed, const Course& course) {
  return Simulation(seed, course).run();
}

}  // namespace dtrain::sync::membership
