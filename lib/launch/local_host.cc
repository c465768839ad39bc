#include "launch/local_host.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>

#include "launch/stop_time.h"

namespace dtrain::launch {
namespace {

constexpr int kReadsAtEnd = 64;  // bounded, because children of the process may go on printing

}  // namespace

Result<std::unique_ptr<LocalHost>> LocalHost::create(const LocalHostOptions& options) {
  std::optional<JobRecord> record;
  if (!options.job.empty()) {
    DT_TRY(JobRecord made, JobRecord::create(options.record_root, options.job));
    record.emplace(std::move(made));
  }
  DT_TRY(ProcessGroup group,
         ProcessGroup::create(options.kill_after, record ? record->file() : "", record ? record->directory() : ""));
  return std::unique_ptr<LocalHost>(new LocalHost(std::move(record), std::move(group), options));
}

Result<> LocalHost::start(size_t process, const Command& command) {
  DT_TRY(Process started, launch::start(command, group_));
  Result<> recorded = record(command, started.pid);
  members_.push_back({process, std::move(started), LineSplitter(stdout_ends_), {}, recorded.has_value()});
  if (recorded) return {};
  ::kill(members_.back().process.pid, SIGKILL);  // without a record it could not be found
  ::waitpid(members_.back().process.pid, nullptr, 0);
  return recorded;
}

// The record's file is made with the first process, because a record without one looks like that of an ended job.
Result<> LocalHost::record(const Command& command, pid_t pid) {
  if (!record_) return {};
  DT_TRY_VOID(record_->add(command.role, command.rank, pid));
  if (members_.empty() && stop_time_ != kStopTime) return record_->set_stop_time(stop_time_);
  return {};
}

// If the record cannot be written now, `dtrain kill` does not know the new time, but the job is not harmed.
void LocalHost::set_stop_time(std::chrono::milliseconds time) {
  stop_time_ = time;
  group_.set_kill_after(time);
  if (record_ && !members_.empty()) (void)record_->set_stop_time(time);
}

void LocalHost::signal(int number) {
  group_.signal(number);
}

// Signals each process separately: a signal to the group would also kill the guard, which keeps the group's id
// reserved.
void LocalHost::kill() {
  for (const Member& member : members_) {
    if (member.running) ::kill(member.process.pid, SIGKILL);
  }
}

void LocalHost::watch(std::vector<pollfd>& watched) const {
  for (const Member& member : members_) {
    for (const UniqueFd* fd : {&member.process.out, &member.process.err}) {
      if (fd->open()) watched.push_back({.fd = fd->get(), .events = POLLIN, .revents = 0});
    }
  }
}

// With hundreds of processes, one call finds out which of them have something to read, and one whether any has ended.
void LocalHost::take(std::vector<HostEvent>& events) {
  std::vector<pollfd> watched;
  watch(watched);
  ::poll(watched.data(), watched.size(), 0);
  siginfo_t child{};
  const bool some_ended = ::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0 && child.si_pid != 0;
  size_t next = 0;
  for (Member& member : members_) {
    bool is_readable = false;
    for (const UniqueFd* fd : {&member.process.out, &member.process.err}) {
      if (fd->open()) is_readable |= watched[next++].revents != 0;
    }
    if (is_readable) read(member, kReadsPerTurn, events);
    if (some_ended) reap(member, events);
  }
}

bool LocalHost::running() const {
  return std::any_of(members_.begin(), members_.end(), [](const Member& m) { return m.running; });
}

void LocalHost::read(Member& member, int reads_max, std::vector<HostEvent>& events) {
  const auto to_events = [&](bool is_stdout) {
    return [&, is_stdout](const std::string& line) { events.emplace_back(OutputLine{member.id, line, is_stdout}); };
  };
  read_lines(member.process.out, member.out, reads_max, to_events(true));
  read_lines(member.process.err, member.err, reads_max, to_events(false));
}

void LocalHost::reap(Member& member, std::vector<HostEvent>& events) {
  int status = 0;
  rusage usage{};
  if (!member.running || ::wait4(member.process.pid, &status, WNOHANG, &usage) != member.process.pid) return;
  member.running = false;
  read(member, kReadsAtEnd, events);
  events.emplace_back(
      ProcessEnd{member.id, status, static_cast<uint64_t>(usage.ru_maxrss) << 10});  // ru_maxrss is in KiB
}

}  // namespace dtrain::launch
