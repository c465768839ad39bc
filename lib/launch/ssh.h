// Command lines of ssh and rsync. Host keys are checked as the user's configuration of ssh says; nothing asks, and
// nothing waits for ever.
#pragma once

#include <string>
#include <vector>

#include "job/host_file.h"

namespace dtrain::launch {

// One machine on which processes are to run.
struct Machine {
  std::string name;                     // as the host file calls it, for messages and prefixes
  std::vector<std::string> ssh = {};    // ends in a shell there, which reads from stdin
  std::string executable = {};          // path there
  std::string directory = {};           // to run in
  std::vector<std::string> agent = {};  // variables that dtrain itself needs to start: "LD_LIBRARY_PATH=..."
  std::vector<std::string> copy = {};   // to be run here first, copies the current directory there; empty: nothing is
};

// "ssh ... HOST COMMAND". COMMAND is for the user's shell there.
std::vector<std::string> ssh_command(const job::SshAddress& address, const std::string& command);

// What the shell is given first: it becomes the agent, in its directory, or says what is not there and ends with one of
// these codes.
inline constexpr int kNoDirectory = 125;
inline constexpr int kNoExecutable = 127;
std::string starter_script(const Machine& machine);

// Copies the current directory to `directory` there, which is made.
std::vector<std::string> rsync_command(const job::SshAddress& address, const std::string& directory,
                                       const std::vector<std::string>& exclude);

}  // namespace dtrain::launch
