// Evaluates how a job ended: the messages of its processes, which of several failures was the cause, and the job's exit
// code.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::launch {

// Keeps the first error that a process reports ("error [...] ..." and its lines "  while ...", see base/error.h), and
// the last lines that it printed, for a process that ends without reporting an error.
class FirstError {
 public:
  void line(const std::string& line);
  // The lines of the first error; empty: none was reported.
  [[nodiscard]] const std::vector<std::string>& error() const { return error_; }
  [[nodiscard]] std::vector<std::string> last_lines() const { return {last_.begin(), last_.end()}; }

 private:
  std::vector<std::string> error_;
  bool open_ = false;  // whether a "  while" line that comes next belongs to the error
  std::deque<std::string> last_;
};

// How one process ended.
struct Ended {
  std::string name;      // name of the process: "worker 3"
  std::string role;      // role of the process: "worker"
  int code = 0;          // exit code; meaningless if a signal ended it
  int signal = 0;        // the signal that ended it; 0 if it exited
  bool stopped = false;  // the launcher had sent it TERM or KILL before it ended
  bool lost = false;     // whether the process's host was lost, so that how it ended is unknown
  // Whether the job could continue without this worker when it ended. Whether it did is known at its end.
  bool was_spared = false;
  bool passes_on = false;  // whether the process's error reports that another process failed: "worker 0 failed: ..."
};

// The exit code for `ended`: its own if it exited. After a signal: 1 for a crash (SEGV, ABRT, ...); 75 if the
// launcher's TERM ended it before the process could handle TERM; 4 for a scheduler that was killed otherwise, because
// the rest of the job lost it; 5 for any other process, and for every process that the launcher had to kill. See
// docs/protocol.md, "Failure".
int code_of(const Ended& ended);
// Whether the cause of this exit code stays, however often the process is started.
bool is_permanent(int exit_code);

// True if the process was ended by a signal that is not a crash, or its host was lost.
bool was_killed(const Ended& ended);

// For example "ended with code 7 (data)" or "was killed by signal 9 (Killed)".
std::string describe(const Ended& ended);

// Returns the index of the failure that caused the others, or nullopt if all processes ended with 0. `ended` must be in
// chronological order. A process that lost a peer, or was stopped on request, is not the cause if another one failed.
// The order of preference is: a process that failed for a reason of its own; one that passes on such a reason; one that
// was killed by a signal that the launcher did not send, or lost with its host; one that lost a peer; one that the
// launcher had to kill; one that was stopped; one that lost a peer while the job was being stopped. Among equals, the
// earliest. A host that is lost after the scheduler has ended with 0 or 75 is no failure, because the scheduler ends in
// this way only when all processes have said goodbye.
std::optional<size_t> root_cause(const std::vector<Ended>& ended);

// 0 only if every process ended with 0; otherwise the code of the root cause.
int job_code(const std::vector<Ended>& ended);

}  // namespace dtrain::launch
