// Programs on this host, in a process group that ends with the process that created it.
//
// The leader of the process group is the guard, a small process that waits for the end of the process that created the
// group (the launcher). When the launcher ends, even by kill -9, its end of a pipe closes. The guard then ends the
// group: it sends TERM, waits, and sends KILL. Until the guard is reaped, no other process can get the id of the group,
// so a signal to the group never reaches an unrelated process.
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
// Programs that are started do not inherit the two ends. Code::kStartup if no descriptors are left.
Result<Pipe> make_pipe();

class ProcessGroup {
 public:
  // Starts the guard. When it ends the group, it waits for `kill_after` between TERM and KILL, then removes
  // `leftover_file` and `leftover_directory` if these names are not empty.
  static Result<ProcessGroup> create(std::chrono::milliseconds kill_after, const std::string& leftover_file,
                                     const std::string& leftover_directory);
  ProcessGroup(ProcessGroup&& other) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) = delete;
  // Kills all processes of the group that still run, including the guard.
  ~ProcessGroup();

  [[nodiscard]] pid_t id() const { return id_; }
  void signal(int signal) const;
  // Sets the time that the guard waits between TERM and KILL.
  void set_kill_after(std::chrono::milliseconds time) const;

  // The write end of a pipe. Every member of the group inherits it, and nothing is written to it. When the last member
  // has ended, the pipe closes, which the guard notices.
  [[nodiscard]] int alive_fd() const { return alive_.get(); }

 private:
  ProcessGroup(pid_t id, UniqueFd guard, UniqueFd alive)
      : id_(id), guard_(std::move(guard)), alive_(std::move(alive)) {}

  pid_t id_ = 0;
  UniqueFd guard_;  // passes changes of `kill_after` to the guard; closes when the launcher ends
  UniqueFd alive_;
};

// A started process, and this process's ends of its streams, which are nonblocking.
struct Process {
  pid_t pid = 0;
  UniqueFd out;  // the read end of the program's stdout
  UniqueFd err;  // the read end of the program's stderr
  UniqueFd in;   // stdin; closed if the process reads from /dev/null
};

// Starts the program in the group, with default signal handling. When the calling thread ends, the program receives
// TERM. If the program has no input and takes none later, its stdin is /dev/null; otherwise the caller must write the
// input to Process::in. Code::kStartup if the program cannot be executed.
Result<Process> start(const Program& program, const ProcessGroup& group);
// Like start(), but in a new process group, which Ctrl-C on a terminal does not reach. Process::in is always open.
Result<Process> start_with_input(const Program& program);

}  // namespace dtrain::proc
