// How one command of a cluster starts an agent on each host of a job (agent_group.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/command.h"

namespace dtrain::launch {

struct AgentCommand {
  std::vector<std::string> hosts;      // names of the hosts; one agent is started on each
  std::string launcher;                // address of this host that the agents connect to
  std::string directory;               // working directory on the hosts
  std::vector<std::string> arguments;  // command line of the agent; the first word is the executable
  std::vector<std::string> variables;  // names of this process's variables that the agents need
};

struct AgentStarter {
  std::string tool;  // "mpirun": for messages
  // The hosts on which the command always starts an agent, because the command cannot be limited to those that the job
  // needs.
  std::vector<std::string> allocation = {};
  // The command follows a job of the cluster. To end that job, TERM must be sent to the command, even if all agents
  // have connected.
  bool follows_job = false;
  // The command only publishes the address to call back to, and ends. Agents that were started by other means connect
  // later.
  bool only_announces = false;
  std::function<Command(const AgentCommand& agents)> command;
};

}  // namespace dtrain::launch
