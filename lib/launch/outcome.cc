#include "launch/outcome.h"

#include <fmt/core.h>

#include <csignal>
#include <cstring>

#include "job/process/exit_code.h"

namespace dtrain::launch {
namespace {

constexpr size_t kLastLines = 3;

bool is_crash(int signal) {
  return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE || signal == SIGILL;
}

const char* class_of(int code) {
  switch (code) {
    case job::kExitOk: return "ok";
    case job::kExitInternal: return "internal error";
    case job::kExitUsage: return "usage or job mismatch";
    case job::kExitStartup: return "start-up";
    case job::kExitSchedulerLost: return "scheduler lost";
    case job::kExitPeerLost: return "peer lost";
    case job::kExitDenied: return "token or build";
    case job::kExitData: return "data";
    case job::kExitDevice: return "device";
    case job::kExitPreempted: return "preempted";
    default: return "not an exit code of dtrain";
  }
}

// How close a failure is to the cause of the job's end, for root_cause; a smaller value is closer.
enum Distance { kOwnCause, kPassesOn, kKilled, kLostPeer, kKilledByLauncher, kStopped, kLostPeerWhileStopping };

Distance distance(const Ended& ended) {
  const int code = code_of(ended);
  if (ended.lost) return ended.stopped ? kKilledByLauncher : kKilled;
  if (code == job::kExitPreempted) return kStopped;
  if (ended.signal != 0 && !is_crash(ended.signal)) return ended.stopped ? kKilledByLauncher : kKilled;
  const bool lost = code == job::kExitPeerLost || code == job::kExitSchedulerLost;
  if (lost && ended.signal == 0) return ended.stopped ? kLostPeerWhileStopping : kLostPeer;
  return ended.passes_on ? kPassesOn : kOwnCause;
}

}  // namespace

void FirstError::line(const std::string& line) {
  if (error_.empty() && line.starts_with("error [")) {
    error_.push_back(line);
    open_ = true;
  } else if (open_ && line.starts_with("  while ")) {
    error_.push_back(line);
  } else {
    open_ = false;
  }
  last_.push_back(line);
  if (last_.size() > kLastLines) last_.pop_front();
}

int code_of(const Ended& ended) {
  if (ended.lost) return job::kExitPeerLost;
  if (ended.signal == 0) return ended.code;
  if (is_crash(ended.signal)) return job::kExitInternal;
  if (ended.stopped && ended.signal == SIGTERM) return job::kExitPreempted;
  return ended.role == "scheduler" && !ended.stopped ? job::kExitSchedulerLost : job::kExitPeerLost;
}

bool is_permanent(int exit_code) {
  return exit_code == job::kExitUsage || exit_code == job::kExitDenied || exit_code == job::kExitData;
}

bool was_killed(const Ended& ended) {
  return ended.lost || (ended.signal != 0 && !is_crash(ended.signal));
}

std::string describe(const Ended& ended) {
  if (ended.lost) return "was lost with its host";
  if (ended.signal == 0) return fmt::format("ended with code {} ({})", ended.code, class_of(ended.code));
  return fmt::format("{} signal {} ({})", is_crash(ended.signal) ? "crashed with" : "was killed by", ended.signal,
                     strsignal(ended.signal));
}

std::optional<size_t> root_cause(const std::vector<Ended>& ended) {
  std::optional<size_t> root;
  bool all_said_goodbye = false;
  for (size_t i = 0; i < ended.size(); i++) {
    const int code = code_of(ended[i]);
    if (ended[i].role == "scheduler") all_said_goodbye |= code == job::kExitOk || code == job::kExitPreempted;
    if (code == job::kExitOk || (ended[i].lost && all_said_goodbye)) continue;
    if (!root || distance(ended[i]) < distance(ended[*root])) root = i;
  }
  return root;
}

int job_code(const std::vector<Ended>& ended) {
  const std::optional<size_t> root = root_cause(ended);
  return root ? code_of(ended[*root]) : job::kExitOk;
}

}  // namespace dtrain::launch
