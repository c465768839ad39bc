// The part of a launcher that is on another host: it starts there what the launcher asks for, tells what becomes of it,
// and ends all of it when the launcher ends, however that comes about (R-L4).
//
// Messages (message.h). The agent greets, is asked, and answers:
//
//   dtrain-agent PROTOCOL BUILD                       it is there
//   open JOB KILL_AFTER_MS MARK                       -> opened 1|0: is there a file MARK? (so it shares the run
//   directory) start N ROLE RANK COUNT ARGUMENT... VARIABLE...   process N signal S, kill to all processes alive the
//   launcher is there out N LINE, err N LINE, end N STATUS PEAK_RSS     of process N failed CODE TEXT and that was all
#pragma once

#include <chrono>
#include <string>

#include "base/error.h"

namespace dtrain::launch {

inline constexpr int kAgentProtocol = 1;
inline constexpr const char* kGreeting = "dtrain-agent";
inline constexpr auto kAliveInterval = std::chrono::seconds(5);

struct AgentOptions {
  int in = 0, out = 1;  // messages; made non-blocking
  std::string build_id;
  std::string record_root;  // job_record.h
  // A launcher that says nothing for so long is gone, though the network did not tell.
  std::chrono::milliseconds silence_max = std::chrono::seconds(30);
};

// Blocks until the launcher has gone and all processes have ended. The process has one thread.
Result<> run_agent(const AgentOptions& options);

}  // namespace dtrain::launch
