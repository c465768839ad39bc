#include "proc/process_group.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

namespace dtrain::proc {
namespace {

// The exit code that shells use if a program cannot be executed; the launcher also receives the errno through a pipe.
constexpr int kNotExecutable = 127;

// True if all other ends of the pipe close within the given time.
bool closes(int fd, int milliseconds) {
  pollfd watched{.fd = fd, .events = 0, .revents = 0};
  int ready = 0;
  while ((ready = ::poll(&watched, 1, milliseconds)) < 0 && errno == EINTR) {
  }
  return ready > 0;
}

void close_all_but(int a, int b) {
  const int low = std::min(a, b);
  const int high = std::max(a, b);
  if (low > 0) ::close_range(0, static_cast<unsigned>(low) - 1, 0);
  if (high > low + 1) ::close_range(static_cast<unsigned>(low) + 1, static_cast<unsigned>(high) - 1, 0);
  ::close_range(static_cast<unsigned>(high) + 1, ~0U, 0);
}

// From here until exec or the end of the process, only operations that are safe after a fork may be used: no
// allocation, no locks, no library state.
[[noreturn]] void guard(int launcher, int alive, int kill_after_ms, const char* file, const char* directory) {
  ::setpgid(0, 0);
  for (const int ignored : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) ::signal(ignored, SIG_IGN);
  ::prctl(PR_SET_NAME, "dtrain-guard");
  close_all_but(launcher, alive);
  ssize_t got = 0;
  int new_time_ms = 0;
  while ((got = ::read(launcher, &new_time_ms, sizeof new_time_ms)) > 0 || (got < 0 && errno == EINTR)) {
    if (got == sizeof new_time_ms) kill_after_ms = new_time_ms;
  }
  ::kill(0, SIGTERM);
  closes(alive, kill_after_ms);
  if (*file != '\0') ::unlink(file);
  if (*directory != '\0') ::rmdir(directory);
  ::kill(0, SIGKILL);
  ::_exit(0);
}

struct ChildSetup {
  pid_t launcher;
  pid_t group;  // the process group that the program joins; 0: a new group is created
  int alive;    // the descriptor that keeps the group's pipe open (ProcessGroup::alive_fd); -1: there is none
  int in, out, err, failure;
  char** arguments;
  char** environment;
};

[[noreturn]] void become(const ChildSetup& setup) {
  const auto give_up = [&] {
    const int error = errno;
    const ssize_t told = ::write(setup.failure, &error, sizeof error);
    ::_exit(told == sizeof error ? kNotExecutable : kNotExecutable - 1);
  };
  if (::setpgid(0, setup.group) != 0) give_up();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != setup.launcher) ::_exit(kNotExecutable);  // the launcher died before prctl took effect
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::dup2(setup.in, 0) < 0 || ::dup2(setup.out, 1) < 0 || ::dup2(setup.err, 2) < 0) give_up();
  if (setup.alive >= 0) ::fcntl(setup.alive, F_SETFD, 0);
  ::execvpe(setup.arguments[0], setup.arguments, setup.environment);
  give_up();
  ::_exit(kNotExecutable);
}

// The variables of this process, where those in `added` take precedence. If `added` contains a name twice, the last
// entry counts.
std::vector<std::string> environment_with(const std::vector<std::string>& added) {
  const auto name = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  std::vector<std::string> all;
  const auto add = [&](std::string_view entry) {
    const bool replaced = std::any_of(all.begin(), all.end(), [&](const auto& a) { return name(a) == name(entry); });
    if (!replaced) all.emplace_back(entry);
  };
  for (auto entry = added.rbegin(); entry != added.rend(); entry++) add(*entry);
  for (char** entry = environ; *entry != nullptr; entry++) add(*entry);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> all;
  all.reserve(strings.size() + 1);
  for (std::string& s : strings) all.push_back(s.data());
  all.push_back(nullptr);
  return all;
}

// Returns 0 as soon as the program runs, or the errno of the call that failed.
int wait_for_exec(int fd) {
  int error = 0;
  ssize_t got = 0;
  while ((got = ::read(fd, &error, sizeof error)) < 0 && errno == EINTR) {
  }
  return got == sizeof error ? error : 0;
}

void reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(Code::kStartup, "cannot create a pipe: {}", std::strerror(errno));
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<ProcessGroup> ProcessGroup::create(std::chrono::milliseconds kill_after, const std::string& leftover_file,
                                          const std::string& leftover_directory) {
  DT_TRY(Pipe launcher, make_pipe());
  DT_TRY(Pipe alive, make_pipe());
  const pid_t pid = ::fork();
  if (pid < 0) return fail(Code::kStartup, "cannot start a process: {}", std::strerror(errno));
  if (pid == 0) {
    launcher.write.close();
    alive.write.close();
    guard(launcher.read.get(), alive.read.get(), static_cast<int>(kill_after.count()), leftover_file.c_str(),
          leftover_directory.c_str());
  }
  ::fcntl(launcher.write.get(), F_SETFL, O_NONBLOCK);
  // Both the parent and the guard call this, because the first member may be started before the guard runs.
  ::setpgid(pid, pid);
  return ProcessGroup(pid, std::move(launcher.write), std::move(alive.write));
}

ProcessGroup::ProcessGroup(ProcessGroup&& other) noexcept
    : id_(std::exchange(other.id_, 0)), guard_(std::move(other.guard_)), alive_(std::move(other.alive_)) {}

ProcessGroup::~ProcessGroup() {
  if (id_ == 0) return;
  signal(SIGKILL);
  reap(id_);
}

// The pipe has room for thousands of these numbers. If it is full, the new time is lost, and the previous time remains
// in effect.
void ProcessGroup::set_kill_after(std::chrono::milliseconds time) const {
  const int time_ms = static_cast<int>(time.count());
  [[maybe_unused]] const ssize_t put = ::write(guard_.get(), &time_ms, sizeof time_ms);
}

void ProcessGroup::signal(int signal) const {
  ::kill(-id_, signal);
}

namespace {

// Starts a program whose stdin is the descriptor `input`, which the caller must close.
Result<Process> start_reading(const Program& program, pid_t group, int alive, int input) {
  std::vector<std::string> arguments = program.arguments;
  std::vector<std::string> environment = environment_with(program.environment);
  std::vector<char*> argv = pointers(arguments);
  std::vector<char*> envp = pointers(environment);
  DT_TRY(Pipe out, make_pipe());
  DT_TRY(Pipe err, make_pipe());
  DT_TRY(Pipe failure, make_pipe());
  const ChildSetup setup{.launcher = ::getpid(),
                         .group = group,
                         .alive = alive,
                         .in = input,
                         .out = out.write.get(),
                         .err = err.write.get(),
                         .failure = failure.write.get(),
                         .arguments = argv.data(),
                         .environment = envp.data()};
  const pid_t pid = ::fork();
  if (pid < 0) return fail(Code::kStartup, "cannot start a process: {}", std::strerror(errno));
  if (pid == 0) become(setup);
  failure.write.close();
  if (const int error = wait_for_exec(failure.read.get()); error != 0) {
    reap(pid);
    return fail(Code::kStartup, "cannot execute '{}': {}", program.arguments[0], std::strerror(error));
  }
  for (const UniqueFd* end : {&out.read, &err.read}) ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  return Process{pid, std::move(out.read), std::move(err.read), UniqueFd()};
}

Result<Process> start_with_pipe(const Program& program, pid_t group, int alive) {
  DT_TRY(Pipe in, make_pipe());
  DT_TRY(Process process, start_reading(program, group, alive, in.read.get()));
  ::fcntl(in.write.get(), F_SETFL, O_NONBLOCK);
  process.in = std::move(in.write);
  return process;
}

}  // namespace

Result<Process> start(const Program& program, const ProcessGroup& group) {
  if (!program.input.empty() || program.takes_more_input) return start_with_pipe(program, group.id(), group.alive_fd());
  const UniqueFd in(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return start_reading(program, group.id(), group.alive_fd(), in.get());
}

Result<Process> start_with_input(const Program& program) {
  return start_with_pipe(program, 0, -1);
}

}  // namespace dtrain::proc
