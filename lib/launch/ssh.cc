#include "launch/ssh.h"

#include "launch/command.h"

namespace dtrain::launch {

// With these options ssh detects a host that is switched off within seconds, and a dead connection after 15 s. No
// terminal is allocated. The user's shared connections (ControlMaster) are neither created nor used: a master outlives
// the launcher and holds its streams open, and a dead master would end the job too.
std::vector<std::string> ssh_with_options(const job::SshAddress& address) {
  std::vector<std::string> words = {"ssh"};
  for (const char* word : {"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o",
                           "ServerAliveCountMax=3", "-o", "ControlMaster=no", "-o", "ControlPath=none"}) {
    words.emplace_back(word);
  }
  if (address.port != 0) words.insert(words.end(), {"-p", std::to_string(address.port)});
  if (!address.user.empty()) words.insert(words.end(), {"-l", address.user});
  return words;
}

std::vector<std::string> ssh_command(const job::SshAddress& address, const std::string& command) {
  std::vector<std::string> words = ssh_with_options(address);
  words.insert(words.end(), {"--", address.host, command});
  return words;
}

std::string starter_script(const OtherHost& other) {
  std::string script;
  for (const std::string& entry : other.agent) {
    const size_t equals = entry.find('=');
    script += fmt::format("{}; export {}\n", entry.substr(0, equals + 1) + proc::shell_line({entry.substr(equals + 1)}),
                          entry.substr(0, equals));
  }
  const std::string directory = proc::shell_line({other.directory}), executable = proc::shell_line({other.executable});
  // The script is a single line, because the shell must have read all of it before the agent reads from the same
  // stream.
  script += fmt::format("cd {} || exit {}; ", directory, kNoDirectory);
  script += fmt::format("[ -x {0} ] || exit {1}; exec {0} launch-agent\n", executable, kNoExecutable);
  return script;
}

}  // namespace dtrain::launch
