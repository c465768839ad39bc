// How one command of a cluster starts an agent on each host of a job (agent_group.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/command.h"

namespace dtrain::launch {

struct AgentCommand {
  std::vector<std::string> hosts;      // names, one agent each
  std::string launcher;                // address of this host, for the hosts
  std::string directory;               // on the hosts
  std::vector<std::string> arguments;  // of the agent; the first one is the executable
  std::vector<std::string> variables;  // names of variables of this process that the agents need
};

struct AgentStarter {
  std::string tool;  // "mpirun": for messages
  // The hosts on which the command starts an agent in any case, because it cannot be told which ones the job needs.
  std::vector<std::string> allocation = {};
  // The command follows a job of the cluster, and must be told by TERM to end it, even if all agents have called.
  bool follows_job = false;
  // The command only says where to call back; agents that were started by other means call after it has ended.
  bool only_announces = false;
  std::function<Command(const AgentCommand& agents)> command;
};

}  // namespace dtrain::launch
