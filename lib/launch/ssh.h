// Command lines for ssh. Host keys are checked according to the user's ssh configuration. The commands never
// ask for input and never wait without a limit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "job/process/host_file.h"
#include "launch/host_copy.h"

namespace dtrain::launch {

// One host on which processes are to run.
struct OtherHost {
  std::string name;                     // name of the host, as in the host file; used in messages and prefixes
  std::vector<std::string> ssh = {};    // command that runs a shell on the host; the shell reads from stdin
  std::string executable = {};          // path of the executable on the host
  std::string directory = {};           // working directory on the host
  std::vector<std::string> agent = {};  // variables that dtrain needs to start: "LD_LIBRARY_PATH=..."
  std::optional<HostCopy> copy = {};    // the files to copy to the host first
};

// The words "ssh ..." with dtrain's options, without the host. rsync takes them in this form, and appends the host.
std::vector<std::string> ssh_with_options(const job::SshAddress& address);
// "ssh ... HOST COMMAND". The user's shell on the host runs COMMAND.
std::vector<std::string> ssh_command(const job::SshAddress& address, const std::string& command);

// The script to send to the shell first. It starts the agent in its directory, or exits with one of these codes if the
// directory or the executable is missing.
inline constexpr int kNoDirectory = 125;
inline constexpr int kNoExecutable = 127;
std::string starter_script(const OtherHost& other);

}  // namespace dtrain::launch
