// What `dtrain ps` and `dtrain kill` have in common: the hosts to ask.
#pragma once

#include <string>
#include <vector>

#include "job/host_file.h"
#include "launch/recorded.h"
#include "tool.h"

namespace dtrain::cmd {

struct HostsOptions {
  std::string hostfile;      // empty: this machine alone
  std::string sync_dst_dir;  // where the job's executable is there, if it was copied
};

// Rows for the members of a tool's Options by which it has a HostsOptions.
template <class Options>
std::vector<job::FlagRow<Options>> hosts_rows() {
  auto hosts = training_row<Options>("hostfile", DT_FIELD(Options, hosts.hostfile, "none"), "this machine alone");
  auto copy = training_row<Options>("sync-dst-dir", DT_FIELD(Options, hosts.sync_dst_dir, "none"), "none");
  copy.help = "where the job was copied to, and its executable with it";
  return {hosts, copy};
}

struct HostsAnswers {
  std::vector<job::SshAddress> hosts;  // distinct ones of the file; empty without one
  std::vector<launch::Finished> answers;
};

constexpr std::chrono::seconds kAnswerTime{60};

// Runs `dtrain ARGUMENTS` on all hosts of the file, for `limit` at most.
Result<HostsAnswers> ask_hosts(const HostsOptions& options, std::vector<std::string> arguments,
                               std::chrono::seconds limit);

}  // namespace dtrain::cmd
