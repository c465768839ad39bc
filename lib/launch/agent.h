// The agent is the launcher's part on another host. It starts the processes that the launcher asks for, reports what
// happens to them, and ends all of them when the launcher ends, for whatever reason. See docs/protocol.md, "Failure".
//
// Messages (message.h), after the agent's greeting:
//
//   dtrain-agent PROTOCOL BUILD        the greeting, when the agent is ready
//
// From the launcher:
//   open JOB KILL_AFTER_MS MARK        answered by `opened 1` if the file MARK exists on the agent's host, else by
//                                      `opened 0`. If it exists, this host shares the launcher's run directory
//   start N ROLE RANK COUNT ARGUMENT... VARIABLE...     starts process N with COUNT arguments
//   signal S, kill                     sends signal S, or SIGKILL, to all processes
//   stop-time MS                       replaces KILL_AFTER_MS
//   alive                              the launcher is still there
//
// From the agent:
//   out N LINE, err N LINE             process N printed a line on stdout or stderr
//   end N STATUS PEAK_RSS              process N ended
//   failed CODE TEXT                   an error; the agent ends
#pragma once

#include <chrono>
#include <string>

#include "base/error.h"

namespace dtrain::launch {

inline constexpr int kAgentProtocol = 2;
inline constexpr const char* kGreeting = "dtrain-agent";
inline constexpr auto kAliveInterval = std::chrono::seconds(5);

struct AgentOptions {
  int in = 0, out = 1;  // descriptors that carry the messages; may be equal; made non-blocking
  std::string build_id;
  std::string record_root;  // directory of the records of jobs, for JobRecord (job_record.h)
  // A launcher that has sent nothing for this long is considered gone, even if the connection is still open.
  std::chrono::milliseconds silence_max = std::chrono::seconds(30);
};

// Returns when the launcher is gone and all processes have ended. The calling process must have a single thread.
Result<> run_agent(const AgentOptions& options);

}  // namespace dtrain::launch
