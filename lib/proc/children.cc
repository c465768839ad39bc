#include "proc/children.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace dtrain::proc {
namespace {

constexpr int kReadsAtEnd = 64;  // limited, because descendants of the process may continue to print

}  // namespace

Result<std::unique_ptr<Children>> Children::create(ChildrenOptions options) {
  DT_TRY(ProcessGroup group,
         ProcessGroup::create(options.kill_after, options.leftover_file, options.leftover_directory));
  return std::unique_ptr<Children>(new Children(std::move(group), std::move(options)));
}

Result<> Children::start(size_t process, const Program& program, const std::function<Result<>(pid_t)>& on_start) {
  DT_TRY(Process started, proc::start(program, group_));
  const pid_t pid = started.pid;
  Result<> done;
  if (on_start) done = on_start(pid);
  children_.push_back({.number = process,
                       .process = std::move(started),
                       .out = LineSplitter(options_.stdout_ends),
                       .err = {},
                       .input = program.input,
                       .takes_more_input = program.takes_more_input,
                       .running = done.has_value()});
  if (done) return {};
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return done;
}

// Sends the signal to each process separately. A signal to the group would also kill the guard, which keeps the id of
// the group reserved.
void Children::kill() const {
  for (const Child& child : children_) {
    if (child.running) ::kill(child.process.pid, SIGKILL);
  }
}

void Children::watch(std::vector<pollfd>& watched) const {
  for (const Child& child : children_) {
    for (const UniqueFd* fd : {&child.process.out, &child.process.err}) {
      if (fd->open()) watched.push_back({.fd = fd->get(), .events = POLLIN, .revents = 0});
    }
    const short wanted = child.input.empty() && child.takes_more_input ? 0 : POLLOUT;
    if (child.process.in.open()) watched.push_back({.fd = child.process.in.get(), .events = wanted, .revents = 0});
  }
}

// There may be hundreds of processes, so a single call finds out which of them are ready, and another one whether any
// of them has ended.
void Children::take(std::vector<Event>& events) {
  std::vector<pollfd> watched;
  watch(watched);
  ::poll(watched.data(), watched.size(), 0);
  siginfo_t child_info{};
  const bool some_ended = ::waitid(P_ALL, 0, &child_info, WEXITED | WNOHANG | WNOWAIT) == 0 && child_info.si_pid != 0;
  size_t next = 0;
  for (Child& child : children_) {
    bool is_ready = false;
    for (const UniqueFd* fd : {&child.process.out, &child.process.err, &child.process.in}) {
      if (fd->open()) is_ready |= watched[next++].revents != 0;
    }
    if (is_ready) {
      feed(child);
      read(child, kReadsPerTurn, events);
    }
    if (some_ended) reap(child, events);
  }
}

bool Children::running() const {
  return std::any_of(children_.begin(), children_.end(), [](const Child& child) { return child.running; });
}

void Children::send(size_t process, std::string_view text) {
  const auto child = std::ranges::find(children_, process, &Child::number);
  DT_CHECK(child != children_.end() && child->takes_more_input, "program {} takes no more input", process);
  if (!child->process.in.open()) return;
  child->input += text;
  feed(*child);
}

// Writes as much as the program accepts now, and closes the pipe when there will be nothing more to write. The program
// may end, or close its stdin, without reading all of it.
void Children::feed(Child& child) {
  const int in = child.process.in.get();
  if (!child.process.in.open()) return;
  pollfd state{.fd = in, .events = 0, .revents = 0};
  const bool is_closed = ::poll(&state, 1, 0) > 0;
  size_t fed = 0;
  while (!is_closed && fed < child.input.size()) {
    const ssize_t put = ::write(in, child.input.data() + fed, child.input.size() - fed);
    if (put < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (put < 0) return child.process.in.close();
    fed += static_cast<size_t>(put);
  }
  child.input.erase(0, fed);
  if (is_closed || (child.input.empty() && !child.takes_more_input)) child.process.in.close();
}

void Children::read(Child& child, int reads_max, std::vector<Event>& events) {
  const auto to_events = [&](bool is_stdout) {
    return [&, is_stdout](const std::string& line) { events.emplace_back(OutputLine{child.number, line, is_stdout}); };
  };
  read_lines(child.process.out, child.out, reads_max, to_events(true));
  read_lines(child.process.err, child.err, reads_max, to_events(false));
}

void Children::reap(Child& child, std::vector<Event>& events) {
  int status = 0;
  rusage usage{};
  if (!child.running || ::wait4(child.process.pid, &status, WNOHANG, &usage) != child.process.pid) return;
  child.running = false;
  child.process.in.close();
  read(child, kReadsAtEnd, events);
  // Converted to bytes, because ru_maxrss is in KiB.
  events.emplace_back(ProcessEnd{child.number, status, static_cast<uint64_t>(usage.ru_maxrss) << 10});
}

}  // namespace dtrain::proc
