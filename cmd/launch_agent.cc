// `dtrain launch-agent`: what the launcher runs on another host (launch/agent.h). It communicates with the launcher
// through stdin and stdout, or through a connection that it opens to the launcher.
#include "launch/agent.h"

#include <unistd.h>

#include "job/process/build_id.h"
#include "job/process/exit_code.h"
#include "launch/call_back.h"
#include "launch/job_record.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {

struct LaunchAgentOptions {
  std::string connect, meet;
  int64_t number = -1;
};

// Opens the agent's connection to its launcher; used if they do not communicate through stdin and stdout.
Result<UniqueFd> connection_to(const LaunchAgentOptions& options, const job::Environment& environment) {
  launch::Hello hello = launch::hello_of(environment);
  if (options.number >= 0) hello.number = options.number;
  if (!options.meet.empty()) {
    DT_TRY(const launch::Meeting meeting, launch::read_meeting(options.meet));
    hello.key = meeting.key;
    return launch::call_back(meeting.launcher, hello);
  }
  if (options.connect.empty()) return UniqueFd();
  DT_TRY(const net::Endpoint endpoint, net::parse_endpoint(options.connect), "reading --connect");
  return launch::call_back(endpoint, hello);
}

}  // namespace

Result<int> launch_agent(const Call& call) {
  const job::FlagTable<LaunchAgentOptions> table(
      {{.name = "connect",
        .value = "HOST:PORT",
        .help = "call back to the launcher at this address",
        .bind = DT_FIELD(LaunchAgentOptions, connect, "stdin and stdout")},
       {.name = "meet",
        .value = "FILE",
        .help = "call back to the launcher at the address in this file, which also holds the key",
        .bind = DT_FIELD(LaunchAgentOptions, meet, "none")},
       {.name = "number",
        .value = "N",
        .help = "number of this agent among the agents of the job, from 0",
        .bind = DT_FIELD(LaunchAgentOptions, number),
        .default_text = "the rank that mpirun or srun assigned, or the number of the array task",
        .min = 0,
        .max = job::kProcessesMax}});
  const std::string usage =
      "dtrain launch-agent [FLAGS]\nRuns on the hosts of a job. The launcher starts it by ssh, mpirun or srun.";
  DT_TRY(const ToolLine<LaunchAgentOptions> line, read_tool_line(table, usage, call, 0, 0));
  if (line.help) return job::kExitOk;
  DT_TRY(const UniqueFd connection, connection_to(line.options, call.environment));
  const int in = connection.open() ? connection.get() : STDIN_FILENO;
  const int out = connection.open() ? connection.get() : STDOUT_FILENO;
  DT_TRY_VOID(launch::run_agent({.in = in,
                                 .out = out,
                                 .build_id = std::string(job::build_id()),
                                 .record_root = launch::record_root(call.environment)}));
  return job::kExitOk;
}

}  // namespace dtrain::cmd
