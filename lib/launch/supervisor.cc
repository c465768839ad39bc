#include "launch/supervisor.h"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/overloaded.h"
#include "base/poll_until.h"
#include "job/process/exit_code.h"
#include "job/process/open_files.h"
#include "job/process/progress.h"
#include "job/process/scheduler_lines.h"
#include "launch/copy_to_hosts.h"
#include "launch/end_report.h"
#include "launch/host.h"
#include "launch/hosts.h"
#include "launch/line_log.h"
#include "launch/outcome.h"
#include "launch/shown_lines.h"
#include "launch/step_times.h"
#include "proc/lines.h"
#include "proc/signal_queue.h"

namespace dtrain::launch {
namespace {

constexpr size_t kFindingsMax = 1000;  // maximum number of findings that are kept; a scheduler reports only a few

struct Member {
  Command command;
  FirstError first_error = {};
  bool running = true;
  LineLog log = {};       // the process's output, if its own log is not written on this host
  bool replaces = false;  // whether it was started in the place of a lost worker
};

enum class JobPhase {
  kStarting,  // waits for the scheduler to report its address
  kRunning,
  kSettling,  // one process has failed, or all workers are done; the others end by themselves
  kStopping,  // TERM was sent to the processes
  kKilled,
};

class Supervisor {
 public:
  Supervisor(const Job& job, Screen& screen, proc::SignalQueue& signals, std::vector<std::unique_ptr<Host>> hosts)
      : job_(job),
        screen_(screen),
        signals_(signals),
        hosts_(std::move(hosts)),
        ready_(hosts_.size()),
        members_on_(hosts_.size()) {}

  Result<JobEnd> run();

 private:
  Result<> launch(const Command& command);
  void launch_others(const std::string& address);

  void wait_for_events();
  void take_events();
  void take_from(size_t host_number);
  void on_line(Member& member, const proc::OutputLine& line);
  bool on_scheduler_line(const std::string& line);
  void keep_line(Member& member, const std::string& line);
  void on_signal(int signal);
  [[nodiscard]] Ended ended_by(const Member& member, int status) const;
  void on_end(Member& member, const Ended& how);
  void on_spared(const Member& member);
  void tell_scheduler(const Member& member, const Ended& ended);
  [[nodiscard]] bool may_continue_without(const Ended& ended) const;
  [[nodiscard]] const Member* newest(const std::string& name) const;
  [[nodiscard]] bool is_newest(const Member& member) const { return newest(member.command.name()) == &member; }
  void replace(const std::string& name);
  bool start_scheduler_again(const Ended& ended);
  std::optional<size_t> spare_for(size_t host_number);
  void on_lost(size_t host_number, const Error& error);
  void on_failure(const Ended& ended);
  void on_deadline();

  void enter(JobPhase phase, Limits::Duration time);
  void remind();
  [[nodiscard]] Limits::Duration time_to_stop() const;
  void tell_time_to_stop();
  void stop(Limits::Duration time);
  void kill();
  void start_failed(Error error);
  JobEnd report();

  void say(std::string_view text) { screen_.line(fmt::format("dtrain: {}", text), Fit::kWords); }
  [[nodiscard]] std::string running_names() const;
  // Whether all workers have ended. Those of a job that may change are not all here, so only its scheduler knows.
  [[nodiscard]] bool workers_done() const { return workers_running_ == 0 && !job_.may_lose_workers; }
  // True if the job may be training, so that its processes need time to end. Only the scheduler's output shows it.
  [[nodiscard]] bool may_train() const { return progress_ || (job_.joins_scheduler && others_started_); }

  const Job& job_;
  Screen& screen_;
  proc::SignalQueue& signals_;
  // The hosts in the order of make_hosts(), so that the index is Command::host_number.
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<bool> ready_;  // indexed by host: whether there may be events to take
  bool all_ready_ = true;    // whether there may be events on all hosts
  // The scheduler first. A deque, because references to members must remain valid while others are added.
  std::deque<Member> members_;
  size_t scheduler_ = 0;           // the index of the newest scheduler
  int64_t scheduler_returns_ = 0;  // how often it was started again
  // The indexes of the members on each host; indexed by Command::host_number.
  std::vector<std::vector<size_t>> members_on_;
  size_t running_ = 0, workers_running_ = 0;
  ShownLines shown_{job_.is_for_people};
  std::vector<Ended> ended_;         // the processes that have ended, in chronological order
  std::string scheduler_address_;    // set once others_started_
  int64_t replacements_ = 0;         // how many processes were started in the place of a lost one
  std::set<std::string> replacing_;  // the names of those that do not take part yet
  std::map<std::string, uint64_t> peak_rss_bytes_;
  std::vector<std::string> findings_;  // findings that the scheduler has reported
  std::optional<Error> start_error_;   // an error of the launcher itself
  JobPhase phase_ = JobPhase::kStarting;
  std::optional<Clock::time_point> deadline_;
  bool others_started_ = false;
  std::optional<Clock::time_point> failed_at_;  // when the first process failed
  std::set<size_t> failed_hosts_;               // see JobEnd::failed_hosts
  std::map<size_t, size_t> spare_of_;           // the index in Job::spare_hosts of the host that replaces a failed one
  std::optional<job::Progress> progress_;       // set once the scheduler has reported that all processes joined
  StepTimes step_times_;
  bool has_lost_lines_ = false;
  bool killed_by_user_ = false, stop_asked_ = false;
  Limits::Duration told_time_to_stop_ = job_.limits.stop;  // the time to stop that was last sent to the hosts
  std::optional<Clock::time_point> reminder_;
};

Result<JobEnd> Supervisor::run() {
  if (!job_.joins_scheduler) {
    DT_TRY_VOID(launch(job_.scheduler), "starting the scheduler of job '{}'", job_.name);
    enter(JobPhase::kStarting, job_.limits.start);
  }
  say(fmt::format("job {}", job_.name));
  say(fmt::format("the logs of all processes are in {}", job_.run_dir));
  if (job_.joins_scheduler) launch_others(job_.scheduler_address);
  while (running_ > 0) {
    wait_for_events();
    const std::vector<int> signals = signals_.take();
    all_ready_ = all_ready_ || !signals.empty();
    for (const int signal : signals) on_signal(signal);
    take_events();
    if (deadline_ && Clock::now() >= *deadline_) {
      if (phase_ == JobPhase::kKilled) break;
      on_deadline();
    }
    if (reminder_ && Clock::now() >= *reminder_) remind();
  }
  all_ready_ = true;
  take_events();
  for (Member& member : members_) {
    // The member is reported with the status that it will have if it ever ends.
    if (member.running) on_end(member, ended_by(member, SIGKILL));
  }
  for (const auto& host : hosts_) host->close();
  hosts_.clear();
  return report();
}

Result<> Supervisor::launch(const Command& command) {
  members_.push_back({.command = command});
  Result<> started = hosts_[command.host_number]->start(members_.size() - 1, command);
  if (!started) {
    members_.pop_back();
    return started;
  }
  members_on_[command.host_number].push_back(members_.size() - 1);
  running_++;
  if (command.role == "worker") workers_running_++;
  shown_.started(command);
  return {};
}

void Supervisor::launch_others(const std::string& address) {
  others_started_ = true;
  scheduler_address_ = address;
  phase_ = JobPhase::kRunning;
  deadline_.reset();  // from now on the scheduler enforces --start-timeout
  if (!job_.joins_scheduler) hosts_.front()->record_scheduler(address, job_.token);
  for (const Command& command : job_.others(address)) {
    if (Result<> started = launch(command); !started) {
      start_failed(std::move(started.error()).with(fmt::format("starting {} of job '{}'", command.name(), job_.name)));
      return;
    }
  }
}

void Supervisor::start_failed(Error error) {
  start_error_ = std::move(error);
  stop(job_.limits.kill_after);
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> watched{{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
  screen_.watch(watched);
  std::optional<Clock::time_point> wake = deadline_;
  if (reminder_ && (!wake || *reminder_ < *wake)) wake = reminder_;
  std::vector<size_t> first_of;  // indexed by host: the number of its first descriptor
  std::vector<std::optional<Clock::time_point>> wakes;
  for (const auto& host : hosts_) {
    first_of.push_back(watched.size());
    host->watch(watched);
    wakes.push_back(host->wakes_at());
    if (wakes.back() && (!wake || *wakes.back() < *wake)) wake = wakes.back();
  }
  first_of.push_back(watched.size());
  poll_until(watched, all_ready_ ? Clock::now() : wake);
  const Clock::time_point now = Clock::now();
  for (size_t i = 0; i < hosts_.size(); i++) {
    const auto of_host = std::span(watched).subspan(first_of[i], first_of[i + 1] - first_of[i]);
    ready_[i] = (wakes[i] && *wakes[i] <= now) ||
                std::ranges::any_of(of_host, [](const pollfd& one) { return one.revents != 0; });
  }
  screen_.flush();
}

// Takes the events of ready hosts only, because at any time only a few of hundreds of hosts have an event.
void Supervisor::take_events() {
  const bool all = std::exchange(all_ready_, false);
  for (size_t host_number = 0; host_number < hosts_.size(); host_number++) {
    if (all || ready_[host_number]) take_from(host_number);
  }
}

void Supervisor::take_from(size_t host_number) {
  std::vector<HostEvent> events;
  hosts_[host_number]->take(events);
  all_ready_ = all_ready_ || hosts_[host_number]->has_news();
  for (const HostEvent& event : events) {
    std::visit(Overloaded{[&](const proc::OutputLine& line) { on_line(members_.at(line.process), line); },
                          [&](const proc::ProcessEnd& end) {
                            Member& member = members_.at(end.process);
                            if (!member.running) return;
                            if (end.peak_rss_bytes > 0) peak_rss_bytes_[member.command.name()] = end.peak_rss_bytes;
                            on_end(member, ended_by(member, end.status));
                          },
                          [&](const HostMessage& message) {
                            screen_.line(fmt::format("[{}] {}", hosts_[host_number]->name(), message.text));
                          },
                          [&](const HostLost& lost) { on_lost(host_number, lost.error); }},
               event);
  }
}

void Supervisor::on_line(Member& member, const proc::OutputLine& line) {
  if (line.is_stdout && member.command.role == "scheduler" && on_scheduler_line(line.text)) return;
  member.first_error.line(line.text);
  if (const std::optional<ShownLine> shown = shown_.shown(member.command, line.text)) {
    screen_.line(shown->text, shown->fit);
  }
  if (!hosts_[member.command.host_number]->shares_run_dir()) keep_line(member, line.text);
}

void Supervisor::keep_line(Member& member, const std::string& line) {
  if (!member.log.is_set()) {
    member.log = LineLog(fmt::format("{}/{}-{}.log", job_.run_dir, member.command.role, member.command.rank));
  }
  const Result<> kept = member.log.append(line);
  if (kept || has_lost_lines_) return;
  has_lost_lines_ = true;  // said once, because a full disk affects the logs of all processes
  say(fmt::format("{}; the job continues, but logs of processes on other hosts may lack lines", kept.error().message));
}

// Handles a line of the scheduler. Returns true if the line was meant for the launcher.
bool Supervisor::on_scheduler_line(const std::string& line) {
  if (line.starts_with(job::kAddressLine)) {
    if (phase_ == JobPhase::kStarting) launch_others(line.substr(job::kAddressLine.size()));
    return true;
  }
  if (line.starts_with(job::kReplaceLine)) {
    replace(line.substr(job::kReplaceLine.size()));
    return true;
  }
  if (line.starts_with(job::kReplacedLine)) {
    replacing_.erase(line.substr(job::kReplacedLine.size()));
    return true;
  }
  if (line.starts_with(job::kFindingLine)) {
    if (findings_.size() < kFindingsMax) findings_.push_back(line.substr(job::kFindingLine.size()));
    return true;
  }
  const std::optional<job::Progress> progress = job::parse_progress(line);
  if (progress) {
    progress_ = *progress;
    if (job_.on_progress) job_.on_progress(*progress);
    step_times_.at(progress->step, Clock::now());
    tell_time_to_stop();
    screen_.live(job::live_progress(*progress, [this](uint32_t rank) { return shown_.host_of_worker(rank); }));
  }
  return progress.has_value();
}

void Supervisor::on_signal(int signal) {
  switch (signal) {
    case SIGCHLD: return;  // nothing to do here, because take_events() follows in any case
    case SIGUSR2:
      for (const auto& host : hosts_) host->signal(SIGUSR2);
      return;
    case SIGINT:
      if (phase_ < JobPhase::kStopping) break;
      say("second interrupt, killing the job");
      killed_by_user_ = stop_asked_ = true;
      return kill();
    default: break;
  }
  stop_asked_ = true;
  if (phase_ >= JobPhase::kStopping) return;
  const Limits::Duration time = may_train() ? time_to_stop() : job_.limits.kill_after;
  say(fmt::format(
      "stopping the job ({}): {}; processes that are still running after {:.0f} s are killed, and a second Ctrl-C "
      "kills them at once",
      strsignal(signal),
      may_train() ? "each process ends its step, and a checkpoint is written" : "training has not begun",
      std::chrono::duration<double>(time).count()));
  stop(time);
  reminder_ = Clock::now() + job_.limits.remind;
}

// The time between TERM and KILL. When TERM arrives, a process may have just begun a step and have to wait for other
// processes that have begun the same step; or worker 0 may have just begun a checkpoint. Each may take longer than the
// earlier ones.
Limits::Duration Supervisor::time_to_stop() const {
  constexpr int kTimes = 3;
  constexpr double kCheckpointMax_s = 86'400;  // limits a number that another process has sent
  if (!job_.limits.adds_measured) return job_.limits.stop;
  const std::chrono::duration<double> checkpoint(progress_ ? std::min(progress_->checkpoint_s, kCheckpointMax_s) : 0);
  const std::chrono::duration<double> measured = kTimes * (step_times_.longest(Clock::now()) + checkpoint);
  return job_.limits.stop + std::chrono::duration_cast<Limits::Duration>(measured);
}

// Sends the time to stop to the hosts, which need it in case this process dies. Small changes are not worth a message
// to each host.
void Supervisor::tell_time_to_stop() {
  const Limits::Duration time = time_to_stop();
  if (time <= told_time_to_stop_ + told_time_to_stop_ / 10) return;
  told_time_to_stop_ = time;
  for (const auto& host : hosts_) host->set_stop_time(time);
}

void Supervisor::remind() {
  reminder_.reset();
  if (phase_ != JobPhase::kStopping) return;
  say(fmt::format("waiting for {} to end ({:.0f} s left; Ctrl-C kills at once)", running_names(),
                  std::chrono::duration<double>(*deadline_ - Clock::now()).count()));
  reminder_ = Clock::now() + job_.limits.remind;
}

Ended Supervisor::ended_by(const Member& member, int status) const {
  return {.name = member.command.name(),
          .role = member.command.role,
          .code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          .stopped = phase_ >= JobPhase::kStopping};
}

void Supervisor::on_end(Member& member, const Ended& how) {
  member.running = false;
  running_--;
  if (member.command.role == "worker") workers_running_--;
  if (how.role == "scheduler" && start_scheduler_again(how)) return;
  ended_.push_back(how);
  const Ended& ended = ended_.back();
  tell_scheduler(member, ended);
  if (code_of(ended) == job::kExitDevice) failed_hosts_.insert(member.command.host_number);
  if (code_of(ended) != job::kExitOk && may_continue_without(ended)) {
    ended_.back().was_spared = true;
    say(fmt::format("{} {}", ended.name, describe(ended)));
    on_spared(member);
  } else if (code_of(ended) != job::kExitOk) {
    if (!failed_at_) failed_at_ = Clock::now();
    const bool as_asked = phase_ == JobPhase::kStopping && ended.code == job::kExitPreempted;
    if (!as_asked) say(fmt::format("{} {}", ended.name, describe(ended)));
    on_failure(ended);
  } else if (ended.role == "scheduler" && !others_started_) {
    start_failed({Code::kStartup, "the scheduler ended before it reported its address", {}});
  } else if (phase_ == JobPhase::kRunning && (workers_done() || ended.role == "scheduler")) {
    enter(JobPhase::kSettling, job_.limits.wind_down);
  }
}

// Handles the end of a worker or server without which the job may continue.
void Supervisor::on_spared(const Member& member) {
  const std::string name = member.command.name();
  const int code = code_of(ended_.back());
  const bool is_awaited = is_newest(member) && replacing_.contains(name);
  const bool is_refused = member.replaces && (code == job::kExitUsage || code == job::kExitDenied);
  if (is_newest(member)) shown_.lost(member.command);
  if (is_awaited || is_refused) ended_.pop_back();       // it never took part, so it is no cause of the job's end
  if (is_awaited && !is_permanent(code)) replace(name);  // the scheduler does not ask for another one
}

// Whether the job may continue without this process. The scheduler decides; if it ends the job, it ends with a failure.
bool Supervisor::may_continue_without(const Ended& ended) const {
  const bool stops = phase_ == JobPhase::kStopping && stop_asked_ && code_of(ended) != job::kExitPreempted;
  const bool may_be_lost = ended.role == "worker" ? job_.may_lose_workers : job_.may_lose_servers;
  return may_be_lost && ended.role != "scheduler" && may_train() && (phase_ < JobPhase::kStopping || stops);
}

// The process with this name, in whose place no other one was started; null: there was none.
const Member* Supervisor::newest(const std::string& name) const {
  const auto found = std::find_if(members_.rbegin(), members_.rend(),
                                  [&](const Member& member) { return member.command.name() == name; });
  return found == members_.rend() ? nullptr : &*found;
}

// A scheduler that was killed continues its job if it keeps its decisions. Until it listens again, the other processes
// wait for it. Returns whether another one was started.
bool Supervisor::start_scheduler_again(const Ended& ended) {
  const bool runs = others_started_ && !failed_at_ && phase_ < JobPhase::kStopping;
  if (!job_.returning_scheduler || !runs || ended.signal == 0 || replacements_ >= job_.replacements_max) return false;
  const Result<> started = launch(job_.returning_scheduler(scheduler_address_, scheduler_returns_ + 1));
  if (!started) {
    say(fmt::format("the scheduler {} and cannot be started again: {}", describe(ended), started.error().message));
    return false;
  }
  scheduler_ = members_.size() - 1;
  scheduler_returns_++;
  replacements_++;
  say(fmt::format("the scheduler {}; it is started again and continues the job ({} of {}, --max-restarts)",
                  describe(ended), replacements_, job_.replacements_max));
  // The one before may not have heard of these.
  for (const Ended& other : ended_) {
    const Member* member = newest(other.name);
    if (member != nullptr && !member->running) tell_scheduler(*member, other);
  }
  return true;
}

// Starts another process with this name, "worker 3" or "server 0". The one that was lost may still run, for instance if
// it was suspended; if a worker asks for its place first, this one is refused. A lost worker may have joined the job
// from elsewhere.
void Supervisor::replace(const std::string& name) {
  const size_t blank = name.find(' ');
  const std::string role = name.substr(0, blank);
  const int rank = blank == name.npos ? 0 : std::atoi(name.c_str() + blank);
  if (!job_.replacement || phase_ != JobPhase::kRunning || replacements_ >= job_.replacements_max) return;
  // A scheduler that has come back does not know for whom the one before has asked.
  const auto is_it = [&name](const Member& member) {
    return member.running && member.replaces && member.command.name() == name;
  };
  if (scheduler_returns_ > 0 && replacing_.contains(name) && std::ranges::any_of(members_, is_it)) return;
  replacing_.insert(name);
  Command command = job_.replacement(scheduler_address_, role, rank, std::nullopt);
  const std::optional<size_t> spare = spare_for(command.host_number);
  if (spare) command = job_.replacement(scheduler_address_, role, rank, spare);
  if (const Result<> started = launch(command); !started) {
    return say(fmt::format("another {} cannot be started: {}", command.name(), started.error().message));
  }
  members_.back().replaces = true;
  replacements_++;
  say(fmt::format("another {} is started on {} ({} of {}, --max-restarts)", command.name(), command.host, replacements_,
                  job_.replacements_max));
}

// The spare host that replaces this host, as an index in Job::spare_hosts; the host gets one now if it has failed.
// nullopt: the host has not failed, or there is no spare host left, so that only the host itself can be tried.
std::optional<size_t> Supervisor::spare_for(size_t host_number) {
  std::optional<size_t> spare;
  while (failed_hosts_.contains(host_number)) {
    if (!spare_of_.contains(host_number)) {
      if (spare_of_.size() == job_.spare_hosts.size()) break;
      const size_t next = spare_of_.size();
      spare_of_.emplace(host_number, next);
      say(fmt::format("the spare host {} takes the place of {}", hosts_[job_.spare_hosts[next]]->name(),
                      hosts_[host_number]->name()));
    }
    spare = spare_of_.at(host_number);
    host_number = job_.spare_hosts[*spare];
  }
  return spare;
}

// Without this report, the scheduler would give a process that was killed time to open its connection again.
void Supervisor::tell_scheduler(const Member& member, const Ended& ended) {
  if (job_.joins_scheduler || member.command.role == "scheduler" || !members_[scheduler_].running) return;
  if (!is_newest(member)) return;
  const job::Role role = member.command.role == "server" ? job::Role::kServer : job::Role::kWorker;
  hosts_.front()->send(scheduler_, job::ended_line({{role, member.command.rank}, describe(ended)}) + "\n");
}

// Handles the loss of a host. Before the job runs, this is a failed start. Later, the processes on the host count as
// failed.
void Supervisor::on_lost(size_t host_number, const Error& error) {
  failed_hosts_.insert(host_number);
  if (!progress_ && phase_ < JobPhase::kStopping) {
    if (!failed_at_) failed_at_ = Clock::now();
    start_failed(error);
  }
  const std::vector<size_t> members = members_on_[host_number];  // a copy, because others may be started
  if (members.empty()) say(error.message);                       // a spare host
  for (const size_t number : members) {
    Member& member = members_[number];
    if (!member.running) continue;
    member.first_error.line(fmt::format("error [{}] {}", code_name(error.code), error.message));
    on_end(member, {.name = member.command.name(),
                    .role = member.command.role,
                    .stopped = phase_ >= JobPhase::kStopping,
                    .lost = true});
  }
}

void Supervisor::on_failure(const Ended& ended) {
  if (phase_ >= JobPhase::kStopping) return;
  if (!may_train()) return stop(job_.limits.kill_after);
  const bool known_before = phase_ == JobPhase::kSettling && !workers_done();
  if (known_before) return;
  enter(JobPhase::kSettling,
        ended.role == "scheduler" && ended.signal != 0 ? job_.limits.settle_scheduler : job_.limits.settle);
}

void Supervisor::on_deadline() {
  switch (phase_) {
    case JobPhase::kStarting:
      start_failed({Code::kStartup,
                    fmt::format("the scheduler did not report its address within {} s (--start-timeout)",
                                std::chrono::duration<double>(job_.limits.start).count()),
                    {}});
      return;
    case JobPhase::kRunning: return deadline_.reset();
    case JobPhase::kSettling:
      say(fmt::format("stopping processes that are still running: {}", running_names()));
      return stop(job_.limits.kill_after);
    case JobPhase::kStopping:
      say(fmt::format("killing processes that did not stop: {}", running_names()));
      return kill();
    case JobPhase::kKilled: return;
  }
}

void Supervisor::enter(JobPhase phase, Limits::Duration time) {
  phase_ = phase;
  deadline_ = Clock::now() + time;
}

void Supervisor::stop(Limits::Duration time) {
  if (phase_ >= JobPhase::kStopping) return;
  for (const auto& host : hosts_) host->signal(SIGTERM);
  all_ready_ = true;
  enter(JobPhase::kStopping, time);
}

void Supervisor::kill() {
  for (const auto& host : hosts_) host->kill();
  all_ready_ = true;
  enter(JobPhase::kKilled, kReapAfterKill);
}

std::string Supervisor::running_names() const {
  std::string names;
  for (const Member& member : members_) {
    if (member.running) names += (names.empty() ? "" : ", ") + member.command.name();
  }
  return names;
}

JobEnd Supervisor::report() {
  if (!start_error_ && progress_) screen_.live(job::live_progress(job::at_end(*progress_)));
  screen_.finish();
  JobHistory history{.start_error = start_error_,
                     .may_have_trained = may_train(),
                     .killed_by_user = killed_by_user_,
                     .ended = ended_,
                     .processes = {}};
  for (const Member& member : members_) {
    const bool was_replaced = member.command.role == "scheduler" && !is_newest(member);
    if (!was_replaced) history.processes.push_back({&member.command, &member.first_error});
  }
  JobEnd end = report_end(job_, history, screen_);
  end.peak_rss_bytes = peak_rss_bytes_;
  end.findings = findings_;
  end.stop_asked = stop_asked_;
  end.failed_at = failed_at_.value_or(Clock::now());
  if (progress_) end.step = progress_->step;
  end.failed_hosts.assign(failed_hosts_.begin(), failed_hosts_.end());
  return end;
}

}  // namespace

Result<JobEnd> supervise(const Job& job, Screen& screen) {
  DT_TRY_VOID(job::check_open_files(descriptors_of(job), "the launcher"));
  proc::SignalQueue signals;
  DT_TRY_VOID(copy_to_hosts(job, screen, signals));
  std::optional<RunDirMark> mark;  // created after the copying, which otherwise would copy it to every host
  if (!job.other_hosts.empty()) {
    DT_TRY(RunDirMark made, RunDirMark::create(job));
    mark.emplace(std::move(made));
  }
  DT_TRY(auto hosts, make_hosts(job, mark ? mark->path() : ""));
  return Supervisor(job, screen, signals, std::move(hosts)).run();
}

}  // namespace dtrain::launch
