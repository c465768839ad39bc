// The machine of the membership and a whole job around it, in virtual time: processes join, train, meet, stop and
// leave, and their messages and streams are delayed, broken and opened again. Everything is drawn from a seed.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "sync/membership.h"
#include "sync/seat.h"

namespace dtrain::sync::membership {

// kShrink: workers crash, or are asked to leave, in a job that continues without them; some of these jobs are also
// asked to stop. kJoin: in addition, others join, some of which crash meanwhile; some of these jobs wait for another
// worker in the place of a lost one, which a launcher starts most of the time.
enum class Disturbance { kCalm, kCrash, kSilence, kStop, kCut, kShrink, kJoin };

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
  std::optional<Member> lost;      // who was declared lost
  bool is_right_one_lost = false;  // by the rule for cut connections, computed from those that were cut
  Millis since_first_cut_ms = 0;   // from the first cut that was not mended until somebody was declared lost
  uint64_t continued = 0;          // lost workers without which the job continued
  uint64_t left = 0;               // workers that left as they were asked
  uint64_t refused = 0;            // requests to leave that were refused
  uint64_t borders = 0;            // at which the workers met and continued
  bool border_was_uneven = false;  // at a border, workers of a set had begun different numbers of steps
  uint64_t drained_all = 0;        // whether all workers were asked to leave by a signal
  std::set<uint32_t> unanswered;   // ranks of the workers that were asked to leave, if that was not answered
  uint64_t joined = 0, dropped = 0, turned_away = 0;  // workers that wanted to join
  uint64_t replaced = 0;                              // of those that joined: in the place of a lost one
  bool has_joined_early = false;                      // a worker was admitted, or began, before all servers knew of it
  bool has_gone_on_without = false;  // at a border, a job that stands still has continued without a lost worker's place
  bool has_lacked_replacement = false;  // a lost worker's place stayed empty for the timeout
  bool has_trained = false;
  bool has_survivor = false;  // a worker had not finished, and would have continued, when the job failed
  std::string trace;
};

class Simulation {
 public:
  Simulation(uint64_t seed, Disturbance disturbance)
      : random_(seed, Use::kSimulation), disturbance_(disturbance), one_lacks_index_(seed % 3 == 0) {
    workers_ = static_cast<uint32_t>(1 + random_.below(5));
    servers_ = static_cast<uint32_t>(random_.below(3));
    epochs_ = static_cast<uint64_t>(random_.below(6));
    Settings settings{.workers = workers_, .servers = servers_, .job_text = ""};
    settings.heartbeat_timeout_ms = 3'000;
    seats_ = workers_;
    if (changes_members()) {
      servers_ = static_cast<uint32_t>(1 + random_.below(2));
      settings.servers = servers_;
      settings.on_worker_loss = OnWorkerLoss::kShrink;
      settings.meets_on_change = random_.below(2) == 0;
    }
    if (disturbance_ == Disturbance::kJoin) {
      seats_ += static_cast<uint32_t>(random_.below(3));
      settings.max_workers = seats_;
      waits_ = random_.below(2) == 0;
      if (waits_) settings.on_worker_loss = OnWorkerLoss::kWait;
      settings.stands_still = random_.below(2) == 0;
      settings.rejoin_timeout_ms = kRejoinTimeout;
      stands_still_ = waits_ && settings.stands_still;
      epochs_ += 2;
    }
    stop_set_of_ = draw_sets();
    set_of_ = stop_set_of_.empty() ? std::vector<uint32_t>(seats_, 0) : stop_set_of_;
    waiting_.resize(seats_);
    for (uint64_t epoch = 0; epoch < epochs_; epoch++) new_sets_.push_back(draw_new_sets());
    machine_ = std::make_unique<Machine>(settings);
    for (uint32_t i = 0; i < workers_ + servers_; i++) {
      const bool works = i < workers_;
      processes_.push_back(
          {.id = i, .works = works, .rank = works ? i : i - workers_, .step_ms_max = 20 + random_.below(150)});
    }
  }

  Outcome run() {
    for (Process& p : processes_) at(random_.below(2'000), [this, &p] { join(p); });
    at(50, [this] { tick(); });
    const auto moment = static_cast<Millis>(1'000 + random_.below(4'000));
    if (disturbance_ == Disturbance::kCrash || disturbance_ == Disturbance::kSilence) at(moment, [this] { crash(); });
    if (disturbance_ == Disturbance::kStop) at(moment, [this] { request_stop(); });
    if (disturbance_ == Disturbance::kCut) at(moment, [this] { cut_links(); });
    if (changes_members()) {
      const int64_t crashes = 1 + random_.below(workers_);
      for (int64_t i = 0; i < crashes; i++) at(500 + random_.below(6'000), [this] { crash_worker(); });
      const int64_t leaves = random_.below(3);
      for (int64_t i = 0; i < leaves; i++) at(500 + random_.below(6'000), [this] { ask_to_leave(); });
      if (random_.below(10) == 0) at(moment, [this] { drain_all(); });
      const int64_t asks = random_.below(4);
      for (int64_t i = 0; i < asks; i++) at(500 + random_.below(6'000), [this] { ask_to_meet(); });
      if (random_.below(3) == 0) at(moment, [this] { request_stop(); });
    }
    if (disturbance_ == Disturbance::kJoin) {
      const int64_t joins = random_.below(4);
      for (int64_t i = 0; i < joins; i++) at(300 + random_.below(6'000), [this] { start_late({}); });
    }
    while (!queue_.empty() && !machine_->ended() && now_ < 200'000) {
      const Timed next = queue_.top();
      queue_.pop();
      now_ = next.when;
      next.what();
    }
    return outcome();
  }

 private:
  static constexpr const char* kInitial = "the initial weights";
  static constexpr const char* kMeeting = "the end of an epoch or of the job";
  static constexpr Millis kRejoinTimeout = 9'000;
  struct Process {
    uint32_t id = 0;
    bool works = false;  // whether it is a worker
    uint32_t rank = 0;
    bool is_late = false, takes_part = true;
    bool repeats = false;                    // it begins with a step that the process before it has made
    std::optional<seat::Server> seats = {};  // of a server
    std::set<uint32_t> rounds = {};          // of a server: the ranks for which its rounds wait
    std::set<Incarnation> accepts = {};      // of a server: the processes whose streams it accepts
    bool admitted = false, crashed = false, ended = false, stream = false;
    int64_t step_ms_max = 1;
    uint64_t begun = 0;
    uint64_t applied = 0;  // steps of all workers, as of its last answer
    uint64_t epoch = 0;
    uint64_t barriers = 0;
    std::optional<BarrierEnter> in_barrier = {};
    bool stopping = false;               // it has said so at the meeting
    uint64_t call = 0;                   // number of its latest call of a barrier
    bool call_broke = false;             // the call broke with the connection
    std::optional<uint64_t> asked = {};  // the call that the scheduler will answer
    uint64_t held = 0, passed = 0;       // numbers of the newest Hold and of the last border
    uint64_t border = 0;                 // the border to which it has come
    bool waits_at_gate = false;
    std::optional<StopAfter> stop_after = {};
    bool failed = false;
    bool prepared = false, trains = false;
    std::map<uint32_t, Millis> cut = {};  // when its connections to servers were cut, by the server's rank
    bool is_gone = false;                 // the scheduler knows that it has ended
    bool is_told_to_leave = false, must_leave = false, has_left = false;
  };
  struct Timed {
    Millis when;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Timed& other) const { return when != other.when ? when > other.when : order > other.order; }
  };

  bool is_worker(const Process& p) const { return p.works && p.takes_part; }
  bool changes_members() const { return disturbance_ == Disturbance::kShrink || disturbance_ == Disturbance::kJoin; }
  static Incarnation incarnation(const Process& p) { return 1'000 - p.id; }  // not in the order of ranks
  void at(int64_t delay, std::function<void()> what) {
    queue_.push({now_ + static_cast<Millis>(delay), order_++, std::move(what)});
  }
  int64_t delay() { return 1 + random_.below(20); }
  // What a process sends arrives later. A crashed process sends nothing.
  void send_from(Process& p, Event event) {
    if (!p.crashed) at(delay(), [this, event = std::move(event)] { send(event); });
  }

  void join(Process& p) {
    send_from(p, Join{.incarnation = incarnation(p),
                      .role = p.works ? Role::kWorker : Role::kServer,
                      .want_rank = p.rank,
                      .job_text = "",
                      .lacks_index = p.works && one_lacks_index_ && p.id + 1 == workers_,
                      .prepared = p.prepared});
  }

  // Somebody starts a worker that joins the running job: for this rank, or for any.
  void start_late(std::optional<uint32_t> rank) {
    const auto id = static_cast<uint32_t>(processes_.size());
    processes_.push_back({.id = id,
                          .works = true,
                          .rank = rank.value_or(0),
                          .is_late = true,
                          .takes_part = false,
                          .step_ms_max = 20 + random_.below(150)});
    Process& p = processes_.back();
    send_from(
        p,
        Join{.incarnation = incarnation(p), .role = Role::kWorker, .want_rank = rank, .job_text = "", .is_late = true});
    if (random_.below(6) == 0) at(random_.below(1'500), [this, &p] { crash_late(p); });
  }
  void crash_late(Process& p) {
    if (p.ended || p.takes_part || std::exchange(p.crashed, true)) return;
    at(delay(), [this, &p] { p.admitted ? send(StreamClosed{incarnation(p)}) : send(Withdraw{incarnation(p)}); });
  }

  void tick() {
    send(Tick{});
    at(100, [this] { tick(); });
  }

  void heartbeat(Process& p) {
    if (p.crashed || p.ended) return;
    if (p.stream) send_from(p, Heartbeat{incarnation(p)});
    if (disturbance_ == Disturbance::kCut) report_links(p);
    if (p.stream && random_.below(40) == 0) break_stream(p);
    at(500, [this, &p] { heartbeat(p); });
  }

  void break_stream(Process& p) {
    p.stream = false;
    p.call_broke = p.in_barrier.has_value();
    reconnects_++;
    send_from(p, StreamClosed{incarnation(p)});
    at(100 + random_.below(400), [this, &p] { open_stream(p); });
  }

  void open_stream(Process& p) {
    if (p.crashed || p.ended) return;
    at(delay(), [this, &p] {
      if (p.crashed) return;
      p.stream = true;
      send(StreamOpened{incarnation(p)});
    });
    if (std::exchange(p.call_broke, false)) ask_barrier(p);  // repeat the call
  }

  void request_stop() {
    stop_ms_ = now_;
    was_asked_to_stop_ = true;
    send(StopRequested{"a signal"});
  }

  Process& any_worker() {
    const int64_t late = std::ssize(processes_) - workers_ - servers_;
    const auto place = static_cast<size_t>(random_.below(workers_ + late));
    Process& p = processes_[place < workers_ ? place : place + servers_];
    return p.takes_part ? p : processes_[0];
  }
  void crash_worker() {
    Process& p = any_worker();
    if (!p.admitted || p.ended || std::exchange(p.crashed, true)) return;
    if (random_.below(2) == 0) at(delay(), [this, &p] { send(StreamClosed{incarnation(p)}); });
  }

  void ask_to_leave() {
    const auto rank = static_cast<uint32_t>(random_.below(workers_));
    const bool by_signal = random_.below(2) == 0;
    if (!by_signal) unanswered_.insert(rank);
    was_asked_to_stop_ = was_asked_to_stop_ || by_signal;  // the job stops if it cannot continue without this worker
    if (!by_signal || !processes_[rank].crashed) send(LeaveAsked{.rank = rank, .by_signal = by_signal});
  }
  void ask_to_meet() {
    Process& p = any_worker();
    if (p.admitted && !p.ended) send_from(p, BorderAsked{incarnation(p)});
  }
  void drain_all() {
    was_asked_to_stop_ = true;
    drained_all_ = 1;
    for (uint32_t rank = 0; rank < workers_; rank++) {
      at(random_.below(900), [this, rank] { send(LeaveAsked{.rank = rank, .by_signal = true}); });
    }
  }

  void crash() {
    Process& p = processes_[static_cast<size_t>(random_.below(static_cast<int64_t>(processes_.size())))];
    if (!p.admitted || p.ended) return;
    p.crashed = true;
    crashed_ = &p;
    crashed_ms_ = now_;
    if (disturbance_ == Disturbance::kCrash) at(delay(), [this, &p] { send(StreamClosed{incarnation(p)}); });
  }

  // Cuts some workers off from one server, each at a time of its own. Some of these connections are open again soon.
  void cut_links() {
    if (servers_ == 0) return;
    const auto server = static_cast<uint32_t>(random_.below(servers_));
    for (Process& p : processes_) {
      const bool is_cut = is_worker(p) && random_.below(3) > 0;
      const bool is_mended = random_.below(3) == 0;
      const int64_t begins = random_.below(400), ends = begins + random_.below(1'500);
      if (!is_cut) continue;
      at(begins, [this, &p, server] {
        if (!p.admitted || p.ended) return;
        p.cut[server] = now_;
        cut_count_++;
        report_links(p);
      });
      if (is_mended)
        at(ends, [this, &p, server] {
          mended_count_ += p.cut.erase(server);
          report_links(p);
        });
    }
  }
  void report_links(Process& p) {
    LinksLost event{incarnation(p), {}};
    for (const auto& [server, since] : p.cut) event.links.push_back({server, now_ - since, "cut"});
    if (is_worker(p) && p.stream && !p.ended) send_from(p, event);
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
    const auto lives = [&](const Process& p) { return is_worker(p) && !p.is_gone; };
    const auto misses = [&](const Process& p) { return lives(p) && p.cut.contains(first->second); };
    const auto live = std::ranges::count_if(processes_, lives), without = std::ranges::count_if(processes_, misses);
    if (without > live - without) return lost == Member{Role::kServer, first->second};
    return lost.role == Role::kWorker && processes_[lost.rank].cut.contains(first->second) &&
           processes_[lost.rank].cut.at(first->second) == first->first;
  }
  Millis first_cut() const {
    Millis first = now_;
    for (const Process& p : processes_) {
      for (const auto& [server, since] : p.cut) first = p.is_gone ? first : std::min(first, since);
    }
    return first;
  }

  // BSP and bounded schemes: one set. GSP: the groups. ASP: one set per worker.
  std::vector<uint32_t> draw_sets() {
    std::vector<uint32_t> sets(seats_);
    switch (random_.below(3)) {
      case 0: return {};
      case 1: std::ranges::generate(sets, [&] { return static_cast<uint32_t>(random_.below(seats_)); }); break;
      default: std::iota(sets.begin(), sets.end(), 0);
    }
    return sets;
  }

  // New sets that a meeting brings. Empty: the sets stay as they are. With a bound, there is one set whatever the
  // groups.
  std::vector<uint32_t> draw_new_sets() {
    std::vector<uint32_t> sets(stop_set_of_.size());
    if (random_.below(2) == 0 || disturbance_ == Disturbance::kJoin) return {};
    std::ranges::generate(sets, [&] { return static_cast<uint32_t>(random_.below(seats_)); });
    return sets;
  }

  // A training step begins when the gate allows it and all workers of the set have finished the step before.
  void try_begin(Process& p) {
    if (p.crashed || p.ended || p.in_barrier || p.failed) return;
    if (p.epoch == epochs_) return leave(p, std::nullopt);
    if (p.must_leave) {
      p.has_left = true;
      return leave(p, std::nullopt);
    }
    const bool is_held = p.held > p.passed;
    p.waits_at_gate = is_held && !p.stop_after;
    if (p.waits_at_gate) return;
    if (is_held && p.begun >= p.stop_after->steps) return p.stop_after->meets ? come_to_border(p) : stop(p);
    p.begun++;
    at(1 + random_.below(p.step_ms_max), [this, &p] { finish_step(p); });
  }

  void finish_step(Process& p) {
    if (p.crashed || p.ended || p.failed) return;
    if (!p.cut.empty()) return at(50, [this, &p] { finish_step(p); });  // it waits for the server
    std::vector<Process*>& waiting = waiting_[set_of_[p.rank]];
    if (!std::exchange(p.repeats, false)) {
      waiting.push_back(&p);
      return close_round(set_of_[p.rank]);
    }
    // The round has the gradient of the process that had this rank before, so this one is dropped.
    const auto before = std::ranges::find(waiting, p.rank, &Process::rank);
    if (before != waiting.end()) {
      *before = &p;
    } else {
      at(delay(), [this, &p] {
        p.applied = applied_;
        go_on(p);
      });
    }
  }

  // Without changes of the members, the servers need no views.
  bool is_in_rounds(uint32_t rank) const {
    return !changes_members() || std::ranges::all_of(processes_, [&](const Process& p) {
      return p.works || !p.seats || p.rounds.contains(rank);
    });
  }
  // A round does not wait for workers that the servers know to be lost.
  void close_round(uint32_t set) {
    int64_t missing = 0;
    for (uint32_t w = 0; w < seats_; w++) missing += set_of_[w] == set && is_in_rounds(w) ? 1 : 0;
    for (const Process* each : waiting_[set]) missing -= is_in_rounds(each->rank) ? 1 : 0;
    if (waiting_[set].empty() || missing > 0) return;
    applied_ += waiting_[set].size();
    for (Process* each : std::exchange(waiting_[set], {})) {
      at(delay(), [this, each, applied = applied_] {
        each->applied = applied;
        go_on(*each);
      });
    }
  }

  // An epoch ends when all workers together have done its steps.
  void go_on(Process& p) {
    if (p.applied < (p.epoch + 1) * 10 * workers_) return try_begin(p);
    enter_barrier(p, kMeeting);
  }
  // The meeting's sum says whether any worker stops; then all of them do.
  void after_barrier(Process& p, const BarrierEnter& barrier) {
    if (barrier.name == kInitial) {
      has_trained_ = true;
      return try_begin(p);
    }
    const uint64_t border = barrier.name == kMeeting ? border_at_[barrier.seq] : 0;
    if (border > 0) {
      p.passed = std::max(p.passed, border);
      p.border = 0;
      return go_on(p);
    }
    if (barrier.name == kMeeting && stopping_meeting_ == barrier.seq) {
      if (!p.stopping) met_at_epochs_end_ = true;
      return leave(p, Code::kPreempted);
    }
    if (barrier.name == kMeeting) {
      return enter_barrier(p, fmt::format("validation {}", p.epoch), new_sets_[p.epoch]);
    }
    p.epoch++;
    go_on(p);
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

  void enter_barrier(Process& p, const std::string& name, const std::vector<uint32_t>& stop_set_of = {}) {
    if (p.crashed || p.ended || p.failed) return;
    p.in_barrier = BarrierEnter{incarnation(p), name, p.barriers, "1 numbers", 0, stop_set_of, p.border};
    ask_barrier(p);
  }
  void ask_barrier(Process& p) {
    p.call++;
    at(delay(), [this, &p, call = p.call, event = *p.in_barrier] {
      p.asked = call;
      border_at_[event.seq] = std::max(border_at_[event.seq], event.border);
      send(event);
    });
  }
  // An answer to a call that broke is lost.
  void answer_barrier(Process& p, const std::function<void()>& answer) {
    const std::optional<uint64_t> call = std::exchange(p.asked, std::nullopt);
    if (!call) return;
    at(delay(), [&p, call, answer] {
      if (p.call == *call && !p.call_broke && p.in_barrier && !p.crashed && !p.ended && !p.failed) answer();
    });
  }

  void leave(Process& p, std::optional<Code> failure) {
    p.ended = true;
    send_from(p, Done{incarnation(p), failure, "", p.begun, p.has_left});
  }

  Process& of(Incarnation id) { return processes_.at(1'000 - id); }

  void send(const Event& event) {
    if (const auto* done = std::get_if<Done>(&event)) of(done->incarnation).is_gone = true;
    std::vector<Effect> out;
    machine_->on(now_, event, out);
    for (const Effect& effect : out) std::visit([this](const auto& e) { carry_out(e); }, effect);
  }

  void carry_out(const Start&) { send(Ready{stop_set_of_}); }
  // A server begins with the view of the start.
  void begin_serving(Process& p) {
    View view{.workers = std::vector<Seat>(seats_, {.incarnation = 0, .state = Seat::State::kEmpty})};
    for (uint32_t rank = 0; rank < workers_; rank++) {
      view.workers[rank] = Seat{.incarnation = incarnation(processes_[rank])};
      p.rounds.insert(rank);
    }
    p.seats.emplace(std::move(view));
  }
  void become_member(Process& p) {
    if (std::exchange(p.admitted, true)) return;
    if (!p.works) begin_serving(p);
    open_stream(p);
    heartbeat(p);
  }
  // It opens its data, which takes a while, and joins once more.
  void carry_out(const Prepare& e) {
    Process& p = of(e.node.incarnation);
    at(delay(), [this, &p] {
      become_member(p);
      at(random_.below(3'000), [this, &p] {
        p.prepared = true;
        if (!p.ended) join(p);
      });
    });
  }
  void carry_out(const Admit& e) {
    Process& p = of(e.node.incarnation);
    if (p.is_late) return admit_late(p, e.node.member.rank);
    at(delay(), [this, &p] {
      become_member(p);
      if (!is_worker(p) || std::exchange(p.trains, true)) return;
      if (!changes_members()) return try_begin(p);
      p.in_barrier = BarrierEnter{incarnation(p), kInitial, p.barriers, "0 numbers", 0, {}, 0, true};
      ask_barrier(p);
    });
  }
  // It prepares itself, and then asks for a border.
  void admit_late(Process& p, uint32_t rank) {
    p.rank = rank;
    const bool is_known = std::ranges::all_of(processes_, [&](const Process& other) {
      return other.works || other.ended || other.accepts.contains(incarnation(p));
    });
    has_joined_early_ = has_joined_early_ || !is_known;
    at(delay(), [this, &p] {
      if (p.crashed || p.ended) return;
      become_member(p);
      at(random_.below(1'500), [this, &p] {
        if (p.crashed || p.ended || p.failed) return;
        p.in_barrier = BarrierEnter{.incarnation = incarnation(p), .name = "joining", .joins = true};
        ask_barrier(p);
      });
    });
  }
  void carry_out(const Tell& e) {
    Process& p = of(e.to);
    p.is_told_to_leave = p.is_told_to_leave || std::holds_alternative<LeaveJob>(e.notice);
    if (!p.stream) return;  // lost with the stream
    const Notice notice = e.notice;
    at(delay(), [this, &p, notice] {
      if (!p.crashed && !p.ended) std::visit([&](const auto& n) { hear(p, n); }, notice);
    });
  }
  void hear(Process& p, const Hold& n) {
    if (n.number > p.held) p.stop_after.reset();
    p.held = std::max(p.held, n.number);
    send_from(p, Held{incarnation(p), n.number, p.begun});
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
    p.failed = true;
    last_heard_ms_ = now_;
    heard_.push_back(n.message);
    leave(p, n.code);
  }
  void hear(Process& p, const Finish&) { leave(p, std::nullopt); }
  // A server takes workers that are gone out of the rounds; the gradient of one that has finished its step still
  // counts.
  void hear(Process& p, const View& view) {
    if (p.works) return;
    std::vector<seat::ServerEffect> effects;
    p.seats->on(view, effects);
    for (const seat::ServerEffect& effect : effects) {
      if (const auto* admit = std::get_if<seat::AdmitStreams>(&effect)) p.accepts.insert(admit->incarnation);
      if (const auto* joins = std::get_if<seat::JoinRounds>(&effect)) {
        p.rounds.insert(joins->rank);
        begins_[joins->rank] = joins->begin;
      }
      const auto* leaves = std::get_if<seat::LeaveRounds>(&effect);
      if (leaves == nullptr) continue;
      p.rounds.erase(leaves->rank);
      close_round(set_of_[leaves->rank]);
    }
    send_from(p, Viewed{incarnation(p), view.number});
  }
  // The steps that the newest weights of a set contain: those with which its other workers compute.
  uint64_t applied_in(uint32_t set) const {
    for (const Process& p : processes_) {
      const bool is_here = is_worker(p) && p.in_barrier && !p.crashed && !p.ended && !p.in_barrier->joins;
      if (is_here && set_of_[p.rank] == set) return p.applied;
    }
    return applied_;
  }
  // Workers that begin with this barrier are where the others are.
  void let_in(const ReleaseBarrier& e) {
    const auto other = std::ranges::find_if(
        processes_, [&](const Process& p) { return is_worker(p) && !p.ended && !p.crashed && p.in_barrier; });
    for (const uint32_t rank : e.joined) {
      const auto waits = [&](const Process& p) {
        return p.in_barrier && p.in_barrier->joins && !p.takes_part && p.rank == rank && !p.ended;
      };
      auto found = std::ranges::find_if(processes_, [&](const Process& p) { return waits(p) && !p.crashed; });
      if (found == processes_.end()) found = std::ranges::find_if(processes_, waits);
      if (found == processes_.end()) continue;
      has_joined_early_ = has_joined_early_ || !is_in_rounds(rank);
      found->takes_part = true;
      found->begun = begins_[rank];
      if (other != processes_.end()) found->epoch = other->epoch;
      found->applied = applied_in(set_of_[rank]);
      found->repeats = std::ranges::count(waiting_[set_of_[rank]], rank, &Process::rank) > 0;
      found->barriers = e.seq;
      found->in_barrier->name = kMeeting;
      found->in_barrier->seq = e.seq;
    }
  }
  void carry_out(const ReleaseBarrier& e) {
    let_in(e);
    const auto inside = [](const Process& p) { return p.in_barrier && !p.in_barrier->stop_set_of.empty(); };
    if (const auto one = std::ranges::find_if(processes_, inside); one != processes_.end()) {
      set_of_ = one->in_barrier->stop_set_of;
      for (const Process& p : processes_) begun_after_[e.seq] = std::max(begun_after_[e.seq], p.begun);
      regrouped_++;
    }
    if (border_at_[e.seq] > 0) look_at_border(e);
    for (Process& p : processes_) {
      if (!is_worker(p) || p.ended) continue;
      if (!p.in_barrier && !p.crashed) early_ = true;
      pass_barrier(p, e.seq);
    }
  }
  // The workers of a set are all between the same two steps.
  void look_at_border(const ReleaseBarrier& e) {
    borders_++;
    if (stands_still_ && !was_asked_to_stop_) {
      const auto is_vacant = [&](uint32_t rank) { return std::ranges::count(e.gone, rank) > 0; };
      has_gone_on_without_ = has_gone_on_without_ || std::ranges::any_of(vacant_, is_vacant);
    }
    std::map<uint32_t, std::set<uint64_t>> begun;
    for (const Process& p : processes_) {
      const bool is_here = is_worker(p) && !p.crashed && !p.ended && std::ranges::count(e.gone, p.rank) == 0;
      if (is_here) begun[set_of_[p.rank]].insert(p.begun);
    }
    uneven_ = uneven_ || std::ranges::any_of(begun, [](const auto& of_set) { return of_set.second.size() > 1; });
  }
  void carry_out(const RepeatBarrier& e) { pass_barrier(of(e.to), e.seq); }
  void pass_barrier(Process& p, uint64_t seq) {
    answer_barrier(p, [this, &p, seq] {
      if (p.barriers != seq) early_ = true;
      p.barriers++;
      if (const auto begun = begun_after_.find(seq); begun != begun_after_.end()) p.begun = begun->second;
      after_barrier(p, *std::exchange(p.in_barrier, std::nullopt));
    });
  }
  void carry_out(const Refuse& e) { turn_away(of(e.incarnation)); }
  void carry_out(const Reject& e) { turn_away(of(e.incarnation)); }
  void turn_away(Process& p) {
    if (!p.is_late || p.takes_part || std::exchange(p.ended, true)) return;
    if (!p.crashed) turned_away_++;
  }
  void carry_out(const DeclareJoined& e) {
    trace_ += fmt::format("{} joined {}\n", now_, to_text(e.member));
    joined_++;
    replaced_ += vacant_.erase(e.member.rank);
  }
  void carry_out(const DeclareDropped& e) {
    trace_ += fmt::format("{} dropped {}: {}\n", now_, to_text(e.member), e.why);
    dropped_++;
  }
  void carry_out(const DeclareLost& e) {
    trace_ += fmt::format("{} lost {}: {}\n", now_, to_text(e.member), e.why);
    lost_ = e.member;
    if (e.continues) continued_++;
    if (e.continues && waits_) {
      vacant_.insert(e.member.rank);
      const int64_t tries = random_.below(8) == 0 ? 0 : 3;
      for (int64_t i = 0; i < tries; i++) {
        at(i * 2'500 + random_.below(1'000), [this, rank = e.member.rank] {
          if (vacant_.contains(rank)) start_late(rank);
        });
      }
    }
    is_right_one_lost_ = is_lost_by_rule(e.member);
    since_first_cut_ms_ = now_ - first_cut();
  }
  void carry_out(const DeclareLeft& e) {
    trace_ += fmt::format("{} left {}\n", now_, to_text(e.member));
    gone_well_++;
    unanswered_.erase(e.member.rank);
  }
  void carry_out(const RefuseLeave& e) {
    trace_ += fmt::format("{} {}\n", now_, e.why);
    refused_++;
    unanswered_.erase(e.rank);
  }
  void carry_out(const LogMissing& e) { trace_ += fmt::format("{} missing {}\n", now_, to_text(e.missing)); }
  void carry_out(const End& e) {
    failure_ = e.failure;
    has_lacked_replacement_ = e.failure && e.failure->message.find("--rejoin-timeout") != std::string::npos;
    trace_ += fmt::format("{} end {}\n", now_, e.failure ? e.failure->message : "well");
  }

  Outcome outcome() const {
    Outcome result;
    result.ended = machine_->ended();
    result.failure = failure_;
    result.heard = heard_;
    result.barrier_was_early = early_;
    result.stopping_ms = now_ - stop_ms_;
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
    result.continued = continued_;
    result.left = gone_well_;
    result.refused = refused_;
    result.borders = borders_;
    result.border_was_uneven = uneven_;
    result.drained_all = drained_all_;
    result.unanswered = unanswered_;
    result.has_trained = has_trained_;
    result.joined = joined_;
    result.dropped = dropped_;
    result.turned_away = turned_away_;
    result.replaced = replaced_;
    result.has_joined_early = has_joined_early_;
    result.has_gone_on_without = has_gone_on_without_;
    result.has_lacked_replacement = has_lacked_replacement_;
    result.has_survivor = std::ranges::any_of(
        processes_, [&](const Process& p) { return is_worker(p) && p.failed && !p.crashed && !p.is_told_to_leave; });
    if (crashed_ != nullptr && !heard_.empty()) result.detection_ms = last_heard_ms_ - crashed_ms_;
    for (const Process& p : processes_) {
      const bool has_heard = !p.is_late || p.admitted;  // the scheduler's process refuses it when the job has ended
      if (!p.crashed && !p.ended && has_heard) result.survivors_ended = false;
      if (is_worker(p) && p.ended && !p.has_left && !p.crashed) {
        result.steps_of_set[set_of_[p.rank]].push_back(p.begun);
      }
      if (p.stop_after && !p.stop_after->meets) result.was_stopped = true;
    }
    return result;
  }

  RandomStream random_;
  Disturbance disturbance_;
  bool one_lacks_index_;  // the last worker: all are prepared before the job starts
  uint32_t workers_ = 1, servers_ = 0, seats_ = 1;
  bool waits_ = false, stands_still_ = false;  // for a worker in the place of a lost one
  uint64_t epochs_ = 0;
  std::vector<uint32_t> stop_set_of_;            // as in Ready
  std::vector<uint32_t> set_of_;                 // the current set of each worker; never empty
  std::vector<std::vector<uint32_t>> new_sets_;  // by epoch; they hold from its end on
  std::map<uint64_t, uint64_t> begun_after_;     // by barrier with new sets: number of steps from which all continue
  uint64_t regrouped_ = 0;
  std::unique_ptr<Machine> machine_;
  std::deque<Process> processes_;
  std::set<uint32_t> vacant_;            // the ranks of lost workers that nobody has replaced
  std::map<uint32_t, uint64_t> begins_;  // by rank: the first step of the worker that has joined last
  uint64_t joined_ = 0, dropped_ = 0, turned_away_ = 0, replaced_ = 0;
  bool has_joined_early_ = false, has_gone_on_without_ = false, has_lacked_replacement_ = false;
  bool was_asked_to_stop_ = false;
  uint64_t continued_ = 0, gone_well_ = 0, refused_ = 0, drained_all_ = 0;
  std::set<uint32_t> unanswered_;
  bool has_trained_ = false;
  std::vector<std::vector<Process*>> waiting_;  // by set: workers that have finished its step
  uint64_t applied_ = 0;                        // steps
  std::priority_queue<Timed> queue_;
  uint64_t order_ = 0;
  Millis now_ = 0;
  Process* crashed_ = nullptr;
  Millis crashed_ms_ = 0, last_heard_ms_ = 0, stop_ms_ = 0;
  std::vector<std::string> heard_;
  uint64_t cut_count_ = 0, mended_count_ = 0;
  std::optional<Member> lost_;
  bool is_right_one_lost_ = false;
  Millis since_first_cut_ms_ = 0;
  std::optional<StopJob> failure_;
  std::map<uint64_t, uint64_t> border_at_;  // by barrier: the border of a worker that came to it; 0: none
  uint64_t borders_ = 0;
  bool uneven_ = false;
  bool early_ = false, met_at_epochs_end_ = false;
  std::optional<uint64_t> stopping_meeting_;  // number of the meeting
  uint64_t reconnects_ = 0;
  std::string trace_;
};

inline Outcome simulate(uint64_t seed, Disturbance disturbance) {
  return Simulation(seed, disturbance).run();
}

}  // namespace dtrain::sync::membership
