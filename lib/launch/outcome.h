// What a job's end means: which of several failures was the cause, and the exit code of the whole (R-L6).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dtrain::launch {

// How one process ended.
struct Ended {
  std::string name;      // "worker 3"
  std::string role;      // "worker"
  int code = 0;          // exit code; meaningless when a signal ended it
  int signal = 0;        // what ended it, 0 if it left by itself
  bool stopped = false;  // the launcher had asked it to end, or killed it, before it did
  bool lost = false;     // its host is: nobody knows how it ended
};

// The exit code that stands for `ended` (distributed.md 6.2): its own; after a signal 1 for a crash (SEGV, ABRT, ...),
// 75 for the launcher's TERM before the process could handle it, else 4 for the scheduler and 5 for the others, whom
// the rest of the job lost, and 5 for whomever the launcher had to kill.
int code_of(const Ended& ended);

// A signal ended it that is no crash of its own, or its host was lost.
bool was_killed(const Ended& ended);

// "ended with code 7 (data)", "was killed by signal 9 (Killed)"
std::string describe(const Ended& ended);

// The failure that the others followed from. `ended` is in the order of time. Losing a peer is a consequence, and so is
// stopping on request; so first whoever failed with a cause of its own, then whoever somebody else's signal killed,
// then who lost a peer, whom the launcher had to kill, who was stopped, who lost a peer that was stopped. Within each
// the earliest. Nothing if all ended with 0.
std::optional<size_t> root_cause(const std::vector<Ended>& ended);

// 0 only if every process ended with 0, else the code of the root cause.
int job_code(const std::vector<Ended>& ended);

}  // namespace dtrain::launch
