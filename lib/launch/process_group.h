// The processes of a job on this host, as one thing that can be ended with certainty (R-L4).
//
// A guard leads the process group: a small process that does nothing until the launcher's end of a pipe closes, however
// the launcher ended, kill -9 included. Then it ends the group: TERM, a while, KILL. As long as the guard has not been
// reaped, no other process can get the group's id, so that a signal to the group never hits a stranger.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "base/error.h"
#include "launch/command.h"
#include "launch/unique_fd.h"

namespace dtrain::launch {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};
// Neither end is inherited by programs. Code::kStartup: there are no more descriptors.
Result<Pipe> make_pipe();

class ProcessGroup {
 public:
  // Starts the guard. It waits `kill_after` between TERM and KILL, and last removes the files `leftovers` and the
  // directory they are in (both may be empty: nothing).
  static Result<ProcessGroup> create(std::chrono::milliseconds kill_after, const std::string& leftover_file,
                                     const std::string& leftover_directory);
  ProcessGroup(ProcessGroup&& other) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) = delete;
  // Kills everything in the group that still runs, the guard as well.
  ~ProcessGroup();

  [[nodiscard]] pid_t id() const { return id_; }
  void signal(int signal) const;

  // Descriptor that every member inherits and nobody reads: the guard sees the last member's end by it.
  [[nodiscard]] int alive_fd() const { return alive_.get(); }

 private:
  ProcessGroup(pid_t id, UniqueFd guard, UniqueFd alive)
      : id_(id), guard_(std::move(guard)), alive_(std::move(alive)) {}

  pid_t id_ = 0;
  UniqueFd guard_;  // closes when the launcher ends
  UniqueFd alive_;
};

// A started process with the other ends of its streams (non-blocking).
struct Process {
  pid_t pid = 0;
  UniqueFd out;  // stdout
  UniqueFd err;  // stderr
  UniqueFd in;   // stdin; closed: it reads from /dev/null
};

// Starts `command` in the group: default signal handling, stdin from /dev/null, TERM when the launcher's thread ends.
// Code::kStartup if it cannot be executed.
Result<Process> start(const Command& command, const ProcessGroup& group);
// The same in a group of its own, which no terminal's Ctrl-C reaches, with stdin from Process::in. The first argument
// is looked for in PATH.
Result<Process> start_with_input(const Command& command);

}  // namespace dtrain::launch
