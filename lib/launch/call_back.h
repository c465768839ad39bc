// How an agent that was started by mpirun, srun or a batch system reaches its launcher: it connects to the launcher's
// address and identifies itself. The first line is
//
//   hello KEY NUMBER NAME ADDRESS...
//
// KEY: the launcher's secret, from DTRAIN_AGENT_KEY. NUMBER: the agent's number within the command that started it, or
// -1. NAME and ADDRESS: those of its host. The messages of agent.h follow on the same connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "job/process/process_environment.h"
#include "net/endpoint.h"

namespace dtrain::launch {

inline constexpr const char* kAgentKey = "DTRAIN_AGENT_KEY";

struct Hello {
  std::string key = {};
  int64_t number = -1;
  std::string host = {};
  std::vector<std::string> addresses = {};
};
std::string to_line(const Hello& hello);  // the line that an agent sends first; it ends with a newline
// Parses the line that an agent sends first; Code::kDenied for any other line.
Result<Hello> parse_hello(std::string_view line);

// The identity of this process, from the variables of the command that started it.
Hello hello_of(const job::Environment& environment);

// Connects to the launcher and says hello. Code::kStartup: it cannot be reached within 20 s, or the key is missing.
Result<UniqueFd> call_back(const net::Endpoint& launcher, const Hello& hello);

// Where a launcher leaves its address and its key for agents that it does not start itself: a file "HOST:PORT KEY" in a
// shared directory, readable only by its user.
struct Meeting {
  net::Endpoint launcher = {};
  std::string key = {};
};
// Code::kStartup: the file cannot be read or has the wrong format.
Result<Meeting> read_meeting(const std::string& path);
// The command that writes the file. It takes the key from the variable DTRAIN_AGENT_KEY.
std::vector<std::string> meeting_command(const std::string& path, const std::string& launcher);

// The index, among the hosts that a job needs, of the host on which the agent runs. The host is found by its name, else
// by one of its addresses, else by its number; else any free host is taken. `taken` says which hosts have an agent
// already. Nullopt: no host is left.
std::optional<size_t> place_of(const Hello& hello, const std::vector<std::string>& hosts,
                               const std::vector<bool>& taken);

}  // namespace dtrain::launch
