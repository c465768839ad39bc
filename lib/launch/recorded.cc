#include "launch/recorded.h"

#include <fmt/ranges.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/poll_until.h"
#include "base/unique_fd.h"
#include "launch/job.h"
#include "launch/job_record.h"
#include "launch/make_job.h"
#include "launch/ssh.h"
#include "proc/this_host.h"

namespace dtrain::launch {
namespace {

namespace fs = std::filesystem;
constexpr auto kReminderInterval = std::chrono::seconds(10);

// This and the next function are system calls that glibc 2.36 declares only for C.
UniqueFd pidfd_open(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}
void pidfd_send_signal(int fd, int number) {
  ::syscall(SYS_pidfd_send_signal, fd, number, nullptr, 0);
}

bool is_own(pid_t pid) {
  struct stat status {};
  return ::stat(fmt::format("/proc/{}", pid).c_str(), &status) == 0 && status.st_uid == ::getuid();
}

bool is_zombie(pid_t pid) {
  const Result<std::string> stat = read_file(fmt::format("/proc/{}/stat", pid));
  return stat && stat->find(") Z") != std::string::npos;
}

int64_t seconds_since(uint64_t start) {
  std::istringstream uptime(read_file("/proc/uptime").value_or("0"));
  double now = 0;
  uptime >> now;
  return std::max<int64_t>(
      0, static_cast<int64_t>(now - static_cast<double>(start) / static_cast<double>(::sysconf(_SC_CLK_TCK))));
}

// Code::kStartup if another user could have written a record there and so chosen which of this user's processes are
// ended.
Result<> check_root(const std::string& root) {
  struct stat status {};
  if (::lstat(root.c_str(), &status) != 0) return {};
  if (S_ISDIR(status.st_mode) && status.st_uid == ::getuid() && (status.st_mode & 077) == 0) return {};
  return fail(Code::kStartup, "'{}' is not a directory that only this user can use (mode 700): remove it", root);
}

void read_record(const fs::path& file, const std::string& job, std::vector<RecordedProcess>& processes) {
  const RecordContent content = parse_record(read_file(file.string()).value_or(""));
  for (const RecordContent::Process& one : content.processes) {
    if (process_start_time(one.pid) != one.start || !is_own(one.pid) || is_zombie(one.pid)) continue;
    processes.push_back({.job = job,
                         .role = one.role,
                         .rank = one.rank,
                         .pid = one.pid,
                         .start = one.start,
                         .host = proc::this_host(),
                         .seconds = seconds_since(one.start),
                         .stop_time = content.stop_time,
                         .scheduler = content.scheduler,
                         .token = content.token});
  }
}

// A running process whose pid is held by a descriptor, so that signals cannot reach another process.
struct Held {
  RecordedProcess process;
  UniqueFd fd;
};

std::vector<Held> hold(std::vector<RecordedProcess> processes) {
  std::vector<Held> held;
  for (RecordedProcess& process : processes) {
    UniqueFd fd = pidfd_open(process.pid);
    // The start time is checked again, because the pid is sure to refer to this process only while the descriptor is
    // open.
    if (!fd.open() || process_start_time(process.pid) != process.start) continue;
    held.push_back({std::move(process), std::move(fd)});
  }
  return held;
}

void signal(const std::vector<Held>& held, int number) {
  for (const Held& one : held) pidfd_send_signal(one.fd.get(), number);
}

void drop_ended(std::vector<Held>& held) {
  std::erase_if(held, [](const Held& one) {
    pollfd ended{.fd = one.fd.get(), .events = POLLIN, .revents = 0};
    return ::poll(&ended, 1, 0) > 0;
  });
}

// Drops processes that have ended; returns true if all end within the time.
bool all_end(std::vector<Held>& held, std::chrono::milliseconds time, const OnWait& on_wait) {
  const auto deadline = Clock::now() + time;
  auto reminder = Clock::now() + kReminderInterval;
  drop_ended(held);
  while (!held.empty() && Clock::now() < deadline) {
    pollfd watched{.fd = held.back().fd.get(), .events = POLLIN, .revents = 0};
    poll_until({&watched, 1}, std::min(deadline, reminder));
    drop_ended(held);
    if (held.empty() || Clock::now() < reminder) continue;
    std::vector<RecordedProcess> left;
    left.reserve(held.size());
    for (const Held& one : held) left.push_back(one.process);
    if (on_wait) on_wait(left, std::chrono::duration_cast<std::chrono::seconds>(deadline - Clock::now()));
    reminder = Clock::now() + kReminderInterval;
  }
  return held.empty();
}

}  // namespace

Result<std::vector<RecordedProcess>> recorded_processes(const std::string& root) {
  DT_TRY_VOID(check_root(root));
  std::vector<RecordedProcess> processes;
  std::error_code error;
  for (const fs::directory_entry& job : fs::directory_iterator(root, error)) {
    for (const fs::directory_entry& file : fs::directory_iterator(job.path(), error)) {
      if (is_own_record(file.path().filename().string())) {
        read_record(file.path(), job.path().filename().string(), processes);
      }
    }
  }
  return processes;
}

std::vector<RecordedProcess> end_processes(std::vector<RecordedProcess> processes, std::chrono::milliseconds kill_after,
                                           const OnWait& on_wait) {
  std::vector<Held> held = hold(std::move(processes));
  signal(held, SIGTERM);
  if (!all_end(held, kill_after, on_wait)) {
    signal(held, SIGKILL);
    all_end(held, kReapAfterKill, {});
  }
  std::vector<RecordedProcess> left;
  left.reserve(held.size());
  for (Held& one : held) left.push_back(std::move(one.process));
  return left;
}

std::string table(const std::vector<RecordedProcess>& processes) {
  size_t job = 3, host = 4;
  for (const RecordedProcess& process : processes) {
    job = std::max(job, process.job.size());
    host = std::max(host, process.host.size());
  }
  std::string text = fmt::format("{:<{}}  {:<9}  {:>4}  {:<{}}  {:>7}  {:>8}\n", "job", job, "role", "rank", "host",
                                 host, "pid", "seconds");
  for (const RecordedProcess& process : processes) {
    text += fmt::format("{:<{}}  {:<9}  {:>4}  {:<{}}  {:>7}  {:>8}\n", process.job, job, process.role, process.rank,
                        process.host, host, process.pid, process.seconds);
  }
  return text;
}

std::string plain(const std::vector<RecordedProcess>& processes) {
  std::string text;
  for (const RecordedProcess& process : processes) {
    text += fmt::format("{} {} {} {} {} {} {}\n", process.job, process.role, process.rank, process.pid, process.start,
                        process.seconds, process.host);
  }
  return text;
}

std::vector<RecordedProcess> parse_plain(const std::vector<std::string>& lines) {
  std::vector<RecordedProcess> processes;
  for (const std::string& line : lines) {
    std::istringstream words(line);
    RecordedProcess process;
    if (words >> process.job >> process.role >> process.rank >> process.pid >> process.start >> process.seconds >>
        process.host) {
      processes.push_back(std::move(process));
    }
  }
  return processes;
}

Result<std::vector<proc::Finished>> ask_hosts(const std::vector<job::SshAddress>& hosts,
                                              const std::vector<std::string>& arguments, std::chrono::seconds limit) {
  std::vector<proc::Program> programs;
  programs.reserve(hosts.size());
  for (const job::SshAddress& host : hosts) {
    programs.push_back({.arguments = ssh_command(host, "exec " + proc::shell_line(arguments))});
  }
  proc::SignalQueue signals;
  return proc::run_all(programs, {.at_once = programs.size(), .limit = limit}, signals);
}

std::string failure_of(const job::SshAddress& host, const proc::Finished& answer) {
  const std::string words = answer.errors.empty() ? "" : fmt::format(": {}", fmt::join(answer.errors, "; "));
  if (answer.over) return fmt::format("{} did not answer in time{}", host_name(host), words);
  if (answer.ended_with(kNoExecutable)) {
    return fmt::format(
        "{} does not have this executable{}; if the executable was copied there with --sync-dst-dir, give the same "
        "--sync-dst-dir",
        host_name(host), words);
  }
  return fmt::format("ssh to {} failed{}", host_name(host), words);
}

}  // namespace dtrain::launch
