// A whole job on this host (R-L1, `--launcher local`): one scheduler, S servers, W workers, all of them this executable
// with the user's flags and their role behind them. With a host file they have its names and GPUs. A flag given twice:
// the last one wins.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "job/flags.h"
#include "job/host_file.h"
#include "launch/supervisor.h"

namespace dtrain::launch {

struct LocalSetting {
  std::string executable;              // absolute path
  std::vector<std::string> arguments;  // the user's, without program name and sub-command
  const job::Flags& flags;             // read from them
  std::string host;                    // this host's name, for prefixes
  std::optional<job::Seating> hosts;   // of the host file: stand in for that name, and say who has which GPUs
  std::string run_dir;                 // exists, or will be made by the processes
  std::string token;                   // empty: one is drawn
  std::string runtime_directory;       // $XDG_RUNTIME_DIR, may be empty
};

// The scheduler takes a free port unless --port names one, and listens on loopback unless the flags name an interface
// or address. The others are told where it is. The token goes through the environment (R-L13), beside the DMLC_* names
// that trackers set (R-N7).
LocalJob local_job(const LocalSetting& setting);

// The table of --dry-run; the scheduler's address is not known before it runs and stands as HOST:PORT.
std::string dry_run_table(const LocalJob& job);

// The absolute path of the running executable.
Result<std::string> this_executable();
std::string this_host();

}  // namespace dtrain::launch
