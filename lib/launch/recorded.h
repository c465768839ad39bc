// Finds the processes of jobs on this host by their launchers' records (job_record.h), and ends them. Implements
// `dtrain ps` and `dtrain kill`.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/process/host_file.h"
#include "launch/stop_time.h"
#include "proc/run.h"

namespace dtrain::launch {

struct RecordedProcess {
  std::string job, role;
  int rank = 0;
  pid_t pid = 0;
  uint64_t start = 0;   // start time, as in the record
  std::string host;     // the host's own name
  int64_t seconds = 0;  // seconds since the process was started
  // The following are not part of plain().
  std::chrono::milliseconds stop_time = kStopTime;  // the job's time between TERM and KILL
  // Address and token of the job's scheduler; empty if the launcher of the job runs on another host.
  std::string scheduler = {}, token = {};
};

// Returns the processes of all of this user's jobs that are still running: the pid exists, has the start time in the
// record, and belongs to this user. `root`: record_root(). Code::kStartup if other users can access it.
Result<std::vector<RecordedProcess>> recorded_processes(const std::string& root);

// Called every 10 s while some processes have not ended yet, with the time left until they are killed.
using OnWait = std::function<void(const std::vector<RecordedProcess>& left, std::chrono::seconds until_kill)>;

// Sends TERM and, after `kill_after`, KILL. Returns the processes that are still running after that, because they are
// stuck in the kernel.
std::vector<RecordedProcess> end_processes(std::vector<RecordedProcess> processes, std::chrono::milliseconds kill_after,
                                           const OnWait& on_wait = {});

// table: a table with a heading. plain: one line per process in the form that parse_plain reads.
std::string table(const std::vector<RecordedProcess>& processes);
std::string plain(const std::vector<RecordedProcess>& processes);
// Skips all other lines, such as a shell's banner.
std::vector<RecordedProcess> parse_plain(const std::vector<std::string>& lines);

// Runs `arguments`, which begin with the executable, on all hosts at the same time through ssh, for at most `limit`.
// Returns one Finished per host.
Result<std::vector<proc::Finished>> ask_hosts(const std::vector<job::SshAddress>& hosts,
                                              const std::vector<std::string>& arguments, std::chrono::seconds limit);
// Explains why a host gave no answer.
std::string failure_of(const job::SshAddress& host, const proc::Finished& answer);

}  // namespace dtrain::launch
