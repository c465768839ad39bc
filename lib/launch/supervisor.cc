#include "launch/supervisor.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "job/progress.h"

#include "job/exit_code.h"
#include "launch/job_record.h"
#include "launch/outcome.h"
#include "launch/output.h"
#include "launch/process_group.h"
#include "launch/signal_queue.h"

namespace dtrain::launch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::string_view kAddressLine = "dtrain scheduler ";
constexpr auto kReapAfterKill = std::chrono::seconds(5);  // a process in the kernel's hands can outlast even KILL
constexpr int kReadsPerTurn = 16;  // a process that prints without end does not starve the others

struct Member {
  Command command;
  Process process;
  LineSplitter out, err;
  FirstError first_error;
  bool running = true;
};

enum class Phase {
  kStarting,  // until the scheduler has said its address
  kRunning,
  kSettling,  // one has failed, or all workers are done: the others end by themselves
  kStopping,  // TERM was sent
  kKilled,
};

class Supervisor {
 public:
  Supervisor(const LocalJob& job, Console& console, SignalQueue& signals, const JobRecord& record,
             const ProcessGroup& group)
      : job_(job), console_(console), signals_(signals), record_(record), group_(group) {}

  Result<JobEnd> run();

 private:
  Result<> launch(const Command& command);
  void launch_others(const std::string& address);

  void wait_for_events();
  void read_outputs();
  void read_output(Member& member, UniqueFd& fd, LineSplitter& splitter);
  void on_line(Member& member, const std::string& line, bool is_stdout);
  bool on_scheduler_line(const std::string& line);
  void on_signal(int signal);
  void reap();
  void on_end(Member& member, int status);
  void on_failure(const Ended& ended);
  void on_deadline();

  void enter(Phase phase, Limits::Duration time);
  void stop();
  void kill();
  void start_failed(Error error);
  JobEnd report();
  std::string report_failure(const Ended& ended, const Member& member);

  void say(std::string_view text) { console_.line(fmt::format("dtrain: {}", text)); }
  [[nodiscard]] int count_running() const {
    return static_cast<int>(std::count_if(members_.begin(), members_.end(), [](const Member& m) { return m.running; }));
  }
  [[nodiscard]] std::string running_names() const;
  [[nodiscard]] bool workers_done() const;

  const LocalJob& job_;
  Console& console_;
  SignalQueue& signals_;
  const JobRecord& record_;
  const ProcessGroup& group_;
  std::deque<Member> members_;  // the scheduler first; a deque: members are referred to while others are added
  std::vector<Ended> ended_;    // in the order of time
  std::vector<const Member*> ended_members_;  // beside ended_
  std::map<std::string, uint64_t> peak_rss_bytes_;
  std::optional<Error> start_error_;  // what the launcher itself failed with
  Phase phase_ = Phase::kStarting;
  std::optional<Clock::time_point> deadline_;
  bool others_started_ = false;
  bool job_ran_ = false;  // the scheduler has said that all had joined
};

Result<JobEnd> Supervisor::run() {
  DT_TRY_VOID(launch(job_.scheduler), "starting the scheduler of job '{}'", job_.name);
  enter(Phase::kStarting, job_.limits.start);
  while (count_running() > 0) {
    wait_for_events();
    for (const int signal : signals_.take()) on_signal(signal);
    read_outputs();
    reap();
    if (deadline_ && Clock::now() >= *deadline_) {
      if (phase_ == Phase::kKilled) break;
      on_deadline();
    }
  }
  read_outputs();
  for (Member& member : members_) {
    if (member.running) on_end(member, SIGKILL);  // its status if the kernel ever lets go of it
  }
  return report();
}

Result<> Supervisor::launch(const Command& command) {
  DT_TRY(Process process, start(command, group_));
  members_.push_back(Member{command, std::move(process), {}, {}, {}});
  return record_.add(command.role, command.rank, members_.back().process.pid);
}

void Supervisor::launch_others(const std::string& address) {
  others_started_ = true;
  phase_ = Phase::kRunning;
  deadline_.reset();  // from here on the scheduler watches over the start (R-N5)
  for (const Command& command : job_.others(address)) {
    if (Result<> started = launch(command); !started) {
      start_failed(std::move(started.error()).with(fmt::format("starting {} of job '{}'", command.name(), job_.name)));
      return;
    }
  }
}

void Supervisor::start_failed(Error error) {
  start_error_ = std::move(error);
  stop();
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> watched{{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
  for (const Member& member : members_) {
    for (const UniqueFd* fd : {&member.process.out, &member.process.err}) {
      if (fd->open()) watched.push_back({.fd = fd->get(), .events = POLLIN, .revents = 0});
    }
  }
  int timeout_ms = -1;
  if (deadline_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now());
    timeout_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
  }
  ::poll(watched.data(), watched.size(), timeout_ms);
}

void Supervisor::read_outputs() {
  for (size_t i = 0; i < members_.size(); i++) {  // the address line adds members
    Member& member = members_[i];
    read_output(member, member.process.out, member.out);
    read_output(member, member.process.err, member.err);
  }
}

void Supervisor::read_output(Member& member, UniqueFd& fd, LineSplitter& splitter) {
  const bool is_stdout = &fd == &member.process.out;
  const auto sink = [&](const std::string& line) { on_line(member, line, is_stdout); };
  std::array<char, 1 << 16> buffer;
  for (int i = 0; fd.open() && i < kReadsPerTurn; i++) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0) return;  // nothing there for now
    splitter.add({buffer.data(), static_cast<size_t>(got)}, sink);
    if (got == 0) {
      splitter.finish(sink);
      fd.close();
    }
  }
}

void Supervisor::on_line(Member& member, const std::string& line, bool is_stdout) {
  if (is_stdout && member.command.role == "scheduler" && on_scheduler_line(line)) return;
  member.first_error.line(line);
  console_.line(fmt::format("[{} {}] {}", member.command.name(), member.command.host, line));
}

// True if the line was for the launcher.
bool Supervisor::on_scheduler_line(const std::string& line) {
  if (line.starts_with(kAddressLine)) {
    if (phase_ == Phase::kStarting) launch_others(line.substr(kAddressLine.size()));
    return true;
  }
  const std::optional<job::Progress> progress = job::parse_progress(line);
  if (progress) {
    job_ran_ = true;
    console_.live(job::format_progress(*progress), Clock::now());
  }
  return progress.has_value();
}

void Supervisor::on_signal(int signal) {
  switch (signal) {
    case SIGCHLD: return;  // reap() follows in any case
    case SIGUSR2: return group_.signal(SIGUSR2);
    case SIGINT:
      if (phase_ < Phase::kStopping) break;
      say("a second interrupt: killing the job");
      return kill();
    default: break;
  }
  if (phase_ >= Phase::kStopping) return;
  say(fmt::format("stopping the job ({}); what still runs in {} s is killed", strsignal(signal),
                  std::chrono::duration_cast<std::chrono::seconds>(job_.limits.kill_after).count()));
  stop();
}

void Supervisor::reap() {
  for (Member& member : members_) {
    int status = 0;
    rusage usage{};
    if (!member.running || ::wait4(member.process.pid, &status, WNOHANG, &usage) != member.process.pid) continue;
    peak_rss_bytes_[member.command.name()] = static_cast<uint64_t>(usage.ru_maxrss) << 10;  // counted in KiB
    on_end(member, status);
  }
}

void Supervisor::on_end(Member& member, int status) {
  member.running = false;
  ended_.push_back(Ended{.name = member.command.name(),
                         .role = member.command.role,
                         .code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                         .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                         .stopped = phase_ >= Phase::kStopping});
  ended_members_.push_back(&member);
  const Ended& ended = ended_.back();
  if (code_of(ended) != job::kExitOk) {
    say(fmt::format("{} {}", ended.name, describe(ended)));
    on_failure(ended);
  } else if (ended.role == "scheduler" && !others_started_) {
    start_failed({Code::kStartup, "the scheduler ended before it said where it listens", {}});
  } else if (phase_ == Phase::kRunning && workers_done()) {
    enter(Phase::kSettling, job_.limits.wind_down);
  }
}

void Supervisor::on_failure(const Ended& ended) {
  if (phase_ >= Phase::kStopping) return;
  if (!job_ran_) return stop();
  const bool known_before = phase_ == Phase::kSettling && !workers_done();
  if (known_before) return;
  enter(Phase::kSettling,
        ended.role == "scheduler" && ended.signal != 0 ? job_.limits.settle_scheduler : job_.limits.settle);
}

void Supervisor::on_deadline() {
  switch (phase_) {
    case Phase::kStarting:
      start_failed({Code::kStartup,
                    fmt::format("the scheduler did not say where it listens within {} s (--start-timeout)",
                                std::chrono::duration<double>(job_.limits.start).count()),
                    {}});
      return;
    case Phase::kRunning: return deadline_.reset();
    case Phase::kSettling: say(fmt::format("still running, stopped now: {}", running_names())); return stop();
    case Phase::kStopping: say(fmt::format("did not stop, killed now: {}", running_names())); return kill();
    case Phase::kKilled: return;
  }
}

void Supervisor::enter(Phase phase, Limits::Duration time) {
  phase_ = phase;
  deadline_ = Clock::now() + time;
}

void Supervisor::stop() {
  if (phase_ >= Phase::kStopping) return;
  group_.signal(SIGTERM);
  enter(Phase::kStopping, job_.limits.kill_after);
}

// Each by itself: the group's signal would take the guard too, and with it the hold on the group's id.
void Supervisor::kill() {
  for (const Member& member : members_) {
    if (member.running) ::kill(member.process.pid, SIGKILL);
  }
  enter(Phase::kKilled, kReapAfterKill);
}

std::string Supervisor::running_names() const {
  std::string names;
  for (const Member& member : members_) {
    if (member.running) names += (names.empty() ? "" : ", ") + member.command.name();
  }
  return names;
}

bool Supervisor::workers_done() const {
  return std::none_of(members_.begin(), members_.end(),
                      [](const Member& m) { return m.command.role == "worker" && m.running; });
}

// The cause comes last: it is what the user reads.
JobEnd Supervisor::report() {
  console_.finish();
  const std::optional<size_t> root = root_cause(ended_);
  if (start_error_ && (!root || ended_[*root].stopped)) {
    if (!job_.log_hint.empty()) say(job_.log_hint);
    console_.line(start_error_->text());
    return {job::kExitStartup, start_error_->text(), peak_rss_bytes_};
  }
  if (!root) return {job::kExitOk, "", peak_rss_bytes_};
  const int code = code_of(ended_[*root]);
  if (code != job::kExitPreempted)
    return {code, report_failure(ended_[*root], *ended_members_[*root]), peak_rss_bytes_};
  if (!job_.stopped_hint.empty()) say(job_.stopped_hint);
  return {code, "", peak_rss_bytes_};
}

// Returns the error that it printed.
std::string Supervisor::report_failure(const Ended& ended, const Member& member) {
  if (!job_.log_hint.empty()) say(job_.log_hint);
  std::string what = fmt::format("{} on {} {}", ended.name, member.command.host, describe(ended));
  std::string error = fmt::format("{}", fmt::join(member.first_error.lines(), "\n"));
  say(error.empty() ? what + " without a word" : what + "; its first error:");
  if (error.empty()) return what;
  console_.line(error);
  return error;
}

}  // namespace

Result<JobEnd> supervise(const LocalJob& job, Console& console) {
  SignalQueue signals;
  DT_TRY(JobRecord record, JobRecord::create(job.record_root, job.name));
  // After the record: the group's end comes first, and the file is there as long as a process is.
  DT_TRY(const ProcessGroup group, ProcessGroup::create(job.limits.kill_after, record.file(), record.directory()));
  return Supervisor(job, console, signals, record, group).run();
}

}  // namespace dtrain::launch
