// Input and result of the supervisor (supervisor.h): the commands, hosts and time limits of a job, and how the job
// ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job/process/progress.h"
#include "launch/agent_group.h"
#include "launch/command.h"
#include "launch/shown_lines.h"
#include "launch/ssh.h"
#include "launch/stop_time.h"
#include "package/staged.h"

namespace dtrain::launch {

struct Limits {
  using Duration = std::chrono::milliseconds;
  Duration start = std::chrono::seconds(300);  // time for the scheduler to report its address (--start-timeout)
  Duration greet = std::chrono::seconds(60);   // time for a host to answer; ssh itself gives up connecting after 10 s
  Duration settle = std::chrono::seconds(15);  // time for the other processes to end after one has failed
  // Like `settle`, if the scheduler has failed: it is longer, because the other processes try to reconnect.
  Duration settle_scheduler = std::chrono::seconds(45);
  Duration wind_down = std::chrono::seconds(30);  // time for the scheduler and the servers to end after the last worker
  Duration stop = kStopTime;                      // time between TERM and KILL for the processes of a running job
  bool adds_measured = true;  // `stop` is extended by the measured time of three steps and three checkpoints of the job
  // Time between two reminders of the processes for which a stopped job waits.
  Duration remind = std::chrono::seconds(10);
  Duration kill_after = std::chrono::seconds(10);  // time between TERM and KILL after a failure, or before the job runs
};

struct Job {
  std::string name;   // name in the record of processes; used as a file name
  Command scheduler;  // runs on this host; not used with joins_scheduler
  std::function<std::vector<Command>(const std::string& scheduler_address)> others;
  Limits limits;
  std::string record_root;  // directory of the records of jobs, for JobRecord (job_record.h)
  // Where to look for the cause; printed before the error of a failed job. May be "".
  std::function<std::string()> log_hint;
  std::string stopped_hint;                     // how to resume the job; printed if it was stopped with code 75
  std::vector<OtherHost> other_hosts = {};      // other hosts on which commands run
  std::optional<AgentGroupOptions> group = {};  // starts the agents of all hosts; if not set, ssh connects to each host
  // The run directory, which the supervisor creates if there are other hosts. The output of a process on a host that
  // does not share this directory is written to ROLE-RANK.log in it.
  std::string run_dir = {};
  bool allow_mixed_builds = false;
  bool is_for_people = false;  // the kind of output that the launcher shows (shown_lines.h)
  // Prepares the package of this program; used if there are hosts with a `copy`.
  std::function<Result<package::StagedPackage>(proc::SignalQueue& signals)> package = {};
  std::string token = {};              // the job's token; empty: it has none
  std::string scheduler_address = {};  // address of the scheduler, as far as known before it starts: "10.0.0.1:PORT"
  // True: these are a part of a job's processes, and their scheduler is started elsewhere, at scheduler_address.
  bool joins_scheduler = false;
  // True: if a worker is lost, the scheduler decides whether the job continues without it (--on-worker-loss).
  bool may_lose_workers = false;
  bool may_lose_servers = false;  // the same for a server (--snapshot-every)
  // The worker or server that takes the place of the lost one with this role and rank (--on-worker-loss wait,
  // --snapshot-every), on the same host or on this one of spare_hosts. Null: none is started.
  std::function<Command(const std::string& scheduler_address, const std::string& role, int rank,
                        std::optional<size_t> spare)>
      replacement = {};
  int64_t replacements_max = 0;  // how many processes are started in the place of lost ones
  // The scheduler that continues the job of one that was killed, at the same address; `times`: how often that has
  // happened. Null: the job ends with its scheduler (--state-dir).
  std::function<Command(const std::string& scheduler_address, int64_t times)> returning_scheduler = {};
  std::vector<size_t> spare_hosts = {};  // their numbers (Command::host_number), in the order in which they are used
  // Called each time that the scheduler reports the job's progress; may be null.
  std::function<void(const job::Progress& progress)> on_progress = {};
};

// A job was started again after a failure.
struct Restart {
  std::string cause;  // the first line of the error
  int64_t step = 0;   // the last step that the job had reported
  // The time from the failure until the job had again reached that step; nullopt: it has not.
  std::optional<double> seconds = {};
  std::chrono::steady_clock::time_point failed_at = {};  // when the job failed
};

struct JobEnd {
  int exit_code = 0;        // exit code of the job (job_code in outcome.h)
  std::string error = {};   // the first error of the process that failed first; empty: none
  bool was_killed = false;  // whether that process was killed or lost with its host, so that it reported nothing
  bool stop_asked = false;  // whether a signal asked the job to stop
  // When the first process failed; the time of the job's end if none did.
  std::chrono::steady_clock::time_point failed_at = {};
  std::optional<int64_t> step = {};       // the last step that the job reported; nullopt: it never began to train
  std::vector<size_t> failed_hosts = {};  // the hosts that were lost, or whose device failed (Command::host_number)
  std::vector<Restart> restarts = {};     // the failures before this run of the job (restarts.h)
  // Peak memory of each process, indexed by its name, such as "worker 3".
  std::map<std::string, uint64_t> peak_rss_bytes = {};
  std::vector<std::string> findings = {};  // reported by the scheduler, as JSON objects (job/process/scheduler_lines.h)
};

}  // namespace dtrain::launch
