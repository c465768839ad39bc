// A whole job (R-L1): one scheduler, S servers, W workers, all of them this executable with the user's flags and their
// role behind them. A flag given twice: the last one wins. By `--launcher local` all run here, with a host file under
// its names and with its GPUs; by `--launcher ssh` servers and workers run on the hosts of the file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "job/flags.h"
#include "job/host_file.h"
#include "launch/supervisor.h"

namespace dtrain::launch {

// "NAME=value" each.
struct Variables {
  std::vector<std::string> scheduler = {}, server = {}, worker = {};  // that the user gave for them
  std::vector<std::string> forwarded = {};                            // of this process, for other hosts
};

struct JobSetting {
  std::string executable;              // absolute path
  std::vector<std::string> arguments;  // the user's, without program name and sub-command
  const job::Flags& flags;             // read from them
  std::string host;                    // this host's name, for prefixes
  std::optional<job::Seating> hosts;   // of the host file: where, or under what names, and who has which GPUs
  std::string run_dir;                 // exists, or will be made by the processes
  std::string token;                   // empty: one is drawn
  std::string record_root;             // job_record.h
  Variables variables = {};
  // With ssh:
  std::string address = {};    // of this machine, by which the hosts reach its scheduler
  std::string directory = {};  // the current one
};

// The scheduler runs here, takes a free port unless --port names one, and listens on loopback unless the job has other
// hosts or the flags name an interface or address. The others are told where it is. The token goes through the
// environment (R-L13), beside the DMLC_* names that trackers set (R-N7). What is for the launcher alone (--env, whose
// values may be secrets, --sync-dst-dir and the like) is in nobody's command line.
Job make_job(const JobSetting& setting);

// What --dry-run prints: the table of processes, then, with other hosts, how each of them is reached, what is copied
// there, and the names of the variables that the processes get; values may be secrets. The scheduler's port is not
// known before it runs, and neither is its address on this machine alone: HOST:PORT stands there.
std::string dry_run_text(const Job& job);

// Distinct hosts of a seating, in order of their first process.
std::vector<job::SshAddress> distinct_hosts(const job::Seating& seating);
// "node3", "node3:2222".
std::string host_name(const job::SshAddress& address);
// Where `executable` is on the hosts to which `directory`, which it may be in, has been copied as `copy`; "": not
// copied.
std::string remote_executable(const std::string& executable, const std::string& directory, const std::string& copy);

// The absolute path of the running executable.
Result<std::string> this_executable();
std::string this_host();

}  // namespace dtrain::launch
