// Prepares the processes that a launcher starts: this executable, in all roles of a job.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "job/process/host_file.h"
#include "launch/make_job.h"
#include "launch/restarts.h"
#include "role/process/run_dir.h"

namespace dtrain::cmd {

// The list in which --dry-run collects what a job needs but this host lacks. If it is null, anything that is missing is
// an error.
using Missing = std::vector<std::string>*;

// The hosts of the job's processes.
struct Places {
  std::optional<job::HostAssignment> hosts = {};     // where each process runs; nullopt: all processes are on this host
  std::optional<launch::AgentStarter> starter = {};  // how the agents are started on the hosts; nullopt: with ssh
  // Hosts that are reached through the same network as the job's hosts. The address of the scheduler is chosen so that
  // these hosts can reach it. Empty: the job's own hosts are used for that.
  std::vector<std::string> ways = {};
  // Whether the names of the hosts are known; false: they are placeholders for hosts that the batch system will choose.
  bool are_known = true;
};
// Assigns the job's processes to the hosts of its host file, or to the hosts of the cluster that --launcher names. If
// the host file does not exist and `missing` is given, all processes are assigned to a host named "HOST".
Result<Places> places_of(const Call& call, const job::Flags& flags, Missing missing = nullptr);
// The same with these hosts in place of those of the host file; nullopt: the flags give no host file.
Result<Places> places_on(const std::optional<job::HostFile>& hosts, const Call& call, const job::Flags& flags);

struct StartSetting {
  // The arguments of every process, to which its role is added; they begin with the sub-command, unless it is train.
  std::vector<std::string> arguments;
  const job::Flags& flags;  // the flags with which the processes are started
  Places places;
  std::string run_dir;
  Missing missing = nullptr;
  // If set, starts only the server and the worker of this rank, and for rank 0 the scheduler.
  std::optional<int> only_rank = {};
  int64_t restart = 0;  // how often the job has been started again
};

struct JobToStart {
  launch::Job processes;
  std::string run_dir;
};

Result<JobToStart> job_to_start(const Call& call, StartSetting setting);

// Runs the job from a background child of this process, with its restarts, and adds the outcome to the run's summary.
// Returns the exit code of the job. `on_end`, if given, is called in the background child.
Result<int> run_job(launch::RestartableJob job, const job::Flags& flags, const role::RunDir& run_dir,
                    const std::function<void(const launch::JobEnd& end)>& on_end = nullptr);

}  // namespace dtrain::cmd
