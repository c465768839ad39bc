// Composes a whole job: one scheduler, S servers and W workers. Each process is this executable with the user's flags
// followed by the flags of its role; if a flag is given twice, the last one wins. With `--launcher local` all processes
// run here, with the names and the GPUs of the host file if there is one. Otherwise servers and workers run on other
// hosts, which are reached through ssh or a cluster's starter.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "job/process/host_file.h"
#include "job/process/process_environment.h"
#include "launch/agent_starter.h"
#include "launch/supervisor.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::launch {

// Each string is "NAME=value".
struct Variables {
  std::vector<std::string> scheduler = {}, server = {}, worker = {};  // variables that the user gives for each role
  std::vector<std::string> forwarded = {};  // variables of this process that are forwarded to other hosts
};

// The variables that the flags and the environment of this process give.
Result<Variables> variables_of(const job::LaunchFlags& flags, const job::Environment& environment);

struct JobSetting {
  std::string executable;                    // absolute path of this executable
  std::vector<std::string> arguments;        // the user's arguments, without program name and subcommand
  const job::Flags& flags;                   // the flags that `arguments` give
  std::string host;                          // this host's name, for prefixes
  std::optional<job::HostAssignment> hosts;  // from the host file: the host (or only its name) and GPUs of each process
  std::string run_dir;                       // the run directory, which exists or will be created by the processes
  std::string token;                         // the job's token; empty: a random one is made
  std::string record_root;                   // directory of the records of jobs, for JobRecord (job_record.h)
  Variables variables = {};
  bool is_for_people = false;  // the kind of output that this launcher shows (job/process/people.h)
  // Used only with other hosts:
  std::optional<AgentStarter> starter = {};  // how the agents are started; if not set, ssh connects to each host
  std::string address = {};                  // address of this host at which the hosts reach its scheduler
  std::string directory = {};                // the current directory
  std::string temporary = "/tmp";            // directory for the package of files for the hosts
  // Starts only a part of the job: the server and the worker of this rank, and for rank 0 the scheduler. All parts meet
  // at the address that --scheduler names in `arguments` and `flags`. The token may be empty.
  std::optional<int> only_rank = {};
  int64_t restart = 0;  // how often the job has been started again
};

// The scheduler runs here. It uses a free port unless --port names one, and listens on loopback unless the job has
// other hosts or the flags name an interface or an address. The other processes receive its address. The token is
// passed in the environment, together with the DMLC_* variables that dmlc's trackers set. Flags that are only for the
// launcher (--env, whose values may be secrets, --sync-dst-dir and the like) do not appear in any process's command
// line. See docs/protocol.md, "Security".
Job make_job(const JobSetting& setting);

// The text that --dry-run prints: the table of processes and, if there are other hosts, how each of them is reached,
// what is copied there, and the names of the variables that the processes get (not their values, which may be secrets).
// HOST and PORT are placeholders for the parts of the scheduler's address that are not known before it runs.
std::string dry_run_text(const Job& job);

// The distinct hosts of an assignment, in the order of their first processes.
std::vector<job::SshAddress> distinct_hosts(const job::HostAssignment& assignment);
// The host's name with its port, if it has one: "node3", "node3:2222".
std::string host_name(const job::SshAddress& address);
// The path of `executable` on hosts to which --sync-dst-dir has copied it; `copy` is that directory, "" without a copy.
std::string remote_executable(const std::string& executable, const std::string& copy);

// The name of the job for a run directory: "lenet-20261121-101500-4f9ac01b" for "runs/lenet-20261121-101500". It ends
// in random digits, because other users' jobs on the same hosts may have a run directory of the same name. Characters
// that are special to a shell become '-', because the name is typed after `dtrain kill` and is part of command lines on
// other hosts.
std::string job_name(const std::string& run_dir);

}  // namespace dtrain::launch
