// Programs on this host, in a group that is guaranteed to end.
//
// A guard leads the process group. It is a small process that waits until the process that created the group (the
// launcher) ends, even by kill -9, which closes the launcher's end of a pipe. Then it ends the group: TERM, a pause,
// KILL. Until the guard is reaped, no other process can get the group's id, so a signal to the group never reaches an
// unrelated process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "proc/program.h"

namespace dtrain::proc {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};
// Started programs do not inherit the two ends. Code::kStartup if no descriptors are left.
Result<Pipe> make_pipe();

class ProcessGroup {
 public:
  // Starts the guard. It waits `kill_after` between TERM and KILL, and finally removes `leftover_file` and then
  // `leftover_directory`, unless the names are empty.
  static Result<ProcessGroup> create(std::chrono::milliseconds kill_after, const std::string& leftover_file,
                                     const std::string& leftover_directory);
  ProcessGroup(ProcessGroup&& other) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) = delete;
  // Kills everything in the group that is still running, including the guard.
  ~ProcessGroup();

  [[nodiscard]] pid_t id() const { return id_; }
  void signal(int signal) const;
  // Sets the time that the guard waits between TERM and KILL.
  void set_kill_after(std::chrono::milliseconds time) const;

  // A descriptor that every member inherits and that is never read; when the last member has ended, it closes, which
  // the guard notices.
  [[nodiscard]] int alive_fd() const { return alive_.get(); }

 private:
  ProcessGroup(pid_t id, UniqueFd guard, UniqueFd alive)
      : id_(id), guard_(std::move(guard)), alive_(std::move(alive)) {}

  pid_t id_ = 0;
  UniqueFd guard_;  // carries new waiting times to the guard; closes when the launcher ends
  UniqueFd alive_;
};

// A started process and our ends of its streams (non-blocking).
struct Process {
  pid_t pid = 0;
  UniqueFd out;  // stdout
  UniqueFd err;  // stderr
  UniqueFd in;   // stdin; closed if it reads from /dev/null
};

// Starts the program in the group, with default signal handling. TERM is sent to it when the calling thread ends.
// Without an input, its stdin is /dev/null; otherwise the caller writes Program::input to Process::in. Code::kStartup
// if it cannot be executed.
Result<Process> start(const Program& program, const ProcessGroup& group);
// The same in a new process group, which Ctrl-C on a terminal does not reach; Process::in is always open.
Result<Process> start_with_input(const Program& program);

}  // namespace dtrain::proc
