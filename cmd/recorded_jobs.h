// Runs a command on all hosts of a host file, which `dtrain ps` and `dtrain kill` both do.
#pragma once

#include <string>
#include <vector>

#include "job/process/host_file.h"
#include "launch/recorded.h"
#include "tool.h"

namespace dtrain::cmd {

struct HostsOptions {
  std::string hostfile;      // path of the host file (-H); empty: only this host
  std::string sync_dst_dir;  // the directory of the job's executable on the hosts, if it was copied there
};

// Rows for a tool's table of flags, which set the member `hosts` (a HostsOptions) of `Options`.
template <class Options>
std::vector<job::FlagRow<Options>> hosts_rows() {
  auto hosts = training_row<Options>("hostfile", DT_FIELD(Options, hosts.hostfile, "none"), "this host alone");
  auto copy = training_row<Options>("sync-dst-dir", DT_FIELD(Options, hosts.sync_dst_dir, "none"), "none");
  copy.help = "directory to which the job and its executable were copied";
  return {hosts, copy};
}

struct HostsAnswers {
  std::vector<job::SshAddress> hosts;  // the hosts of the file, each of them once; empty without a file
  std::vector<proc::Finished> answers;
};

constexpr std::chrono::seconds kAnswerTime{60};

// Runs `dtrain ARGUMENTS` on all hosts of the host file, for at most `limit`.
Result<HostsAnswers> ask_hosts(const HostsOptions& options, std::vector<std::string> arguments,
                               std::chrono::seconds limit);

}  // namespace dtrain::cmd
