// Command lines for ssh and rsync. Host keys are checked according to the user's ssh configuration. The commands never
// ask for input and never wait without a limit.
#pragma once

#include <string>
#include <vector>

#include "job/process/host_file.h"

namespace dtrain::launch {

// One machine on which processes are to run.
struct Machine {
  std::string name;                     // as in the host file, for messages and prefixes
  std::vector<std::string> ssh = {};    // command that runs a shell there, which reads from stdin
  std::string executable = {};          // path there
  std::string directory = {};           // working directory there
  std::vector<std::string> agent = {};  // variables that dtrain needs to start: "LD_LIBRARY_PATH=..."
  std::vector<std::string> copy = {};   // command to run here first: copies the current directory there; empty: no copy
};

// "ssh ... HOST COMMAND". The user's shell on the host runs COMMAND.
std::vector<std::string> ssh_command(const job::SshAddress& address, const std::string& command);

// The script to send to the shell first. It starts the agent in its directory, or exits with one of these codes if the
// directory or the executable is missing.
inline constexpr int kNoDirectory = 125;
inline constexpr int kNoExecutable = 127;
std::string starter_script(const Machine& machine);

// Copies the current directory to `directory` on the host, which is created if needed.
std::vector<std::string> rsync_command(const job::SshAddress& address, const std::string& directory,
                                       const std::vector<std::string>& exclude);

}  // namespace dtrain::launch
