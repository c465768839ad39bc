// Processes of jobs on this machine, found by the records of their launchers (job_record.h), and ended: what `dtrain
// ps` and `dtrain kill` do (R-L11).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/host_file.h"
#include "launch/run_all.h"

namespace dtrain::launch {

struct RecordedProcess {
  std::string job, role;
  int rank = 0;
  pid_t pid = 0;
  uint64_t start = 0;   // as in the record
  std::string host;     // as the machine calls itself
  int64_t seconds = 0;  // since its start
};

// Those of all jobs of this user that still run: the pid is there, was given out when the record says, and is this
// user's. `root`: record_root(). Code::kStartup if it is not this user's alone.
Result<std::vector<RecordedProcess>> recorded_processes(const std::string& root);

// Called every 10 s while some are still to end, with the time until they are killed.
using OnWait = std::function<void(const std::vector<RecordedProcess>& left, std::chrono::seconds until_kill)>;

// TERM, `kill_after`, KILL. Those that are left after all, which only the kernel can be the cause of.
std::vector<RecordedProcess> end_processes(std::vector<RecordedProcess> processes, std::chrono::milliseconds kill_after,
                                           const OnWait& on_wait = {});

// A table with a heading; plain: a line a process in a form that parse_plain reads.
std::string table(const std::vector<RecordedProcess>& processes);
std::string plain(const std::vector<RecordedProcess>& processes);
// Lines that are none are passed over: a shell's banner.
std::vector<RecordedProcess> parse_plain(const std::vector<std::string>& lines);

// Runs `arguments`, of which the first is the executable, on every host by ssh, all at the same time, for `limit` at
// most. One Finished a host.
Result<std::vector<Finished>> ask_hosts(const std::vector<job::SshAddress>& hosts,
                                        const std::vector<std::string>& arguments, std::chrono::seconds limit);
// Why a host gave no answer.
std::string complaint(const job::SshAddress& host, const Finished& answer);

}  // namespace dtrain::launch
