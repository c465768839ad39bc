// The part that `dtrain ps` and `dtrain kill` share: running a command on all hosts of a host file.
#pragma once

#include <string>
#include <vector>

#include "job/process/host_file.h"
#include "launch/recorded.h"
#include "tool.h"

namespace dtrain::cmd {

struct HostsOptions {
  std::string hostfile;      // empty: only this host
  std::string sync_dst_dir;  // the directory of the job's executable on the hosts, if it was copied there
};

// The rows of a tool's flag table for `Options::hosts`, a HostsOptions.
template <class Options>
std::vector<job::FlagRow<Options>> hosts_rows() {
  auto hosts = training_row<Options>("hostfile", DT_FIELD(Options, hosts.hostfile, "none"), "this host alone");
  auto copy = training_row<Options>("sync-dst-dir", DT_FIELD(Options, hosts.sync_dst_dir, "none"), "none");
  copy.help = "directory to which the job and its executable were copied";
  return {hosts, copy};
}

struct HostsAnswers {
  std::vector<job::SshAddress> hosts;  // the distinct hosts of the file; empty without a file
  std::vector<proc::Finished> answers;
};

constexpr std::chrono::seconds kAnswerTime{60};

// Runs `dtrain ARGUMENTS` on all hosts of the file, for at most `limit`.
Result<HostsAnswers> ask_hosts(const HostsOptions& options, std::vector<std::string> arguments,
                               std::chrono::seconds limit);

}  // namespace dtrain::cmd
