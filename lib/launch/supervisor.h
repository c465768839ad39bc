// Runs the processes of a job, on this host and on others, to their end: starts them, shows what they print, passes
// signals on, and leaves none of them behind.
//
// What it expects of the scheduler's stdout: first one line "dtrain scheduler HOST:PORT", with which the others are
// started; then, once all have joined and again and again, lines "live ..." (job/progress.h). Everything else that any
// process prints is shown with the prefix "[worker 3 host] ".
//
// A failure before the first "live" line is a failed start: the others are stopped at once. Later they are given the
// time in which they notice by themselves (R-F1, R-F2), for then each says what it missed and rank 0 may save its
// state.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/command.h"
#include "launch/screen.h"
#include "launch/ssh.h"

namespace dtrain::launch {

// From TERM to KILL for processes of a job that runs: a step of a large network, and a checkpoint on a slow disk.
inline constexpr std::chrono::seconds kStopTime{120};

struct Limits {
  using Duration = std::chrono::milliseconds;
  Duration start = std::chrono::seconds(300);            // until the scheduler says where it listens (--start-timeout)
  Duration greet = std::chrono::seconds(60);             // for a host to answer; ssh itself connects within 10 s
  Duration settle = std::chrono::seconds(15);            // for the others to end after one has failed
  Duration settle_scheduler = std::chrono::seconds(45);  // the same after the scheduler has: they retry for its grace
  Duration wind_down = std::chrono::seconds(30);         // for scheduler and servers after the last worker has ended
  Duration stop = kStopTime;                             // between TERM and KILL of a job that runs, beside three steps
  Duration remind = std::chrono::seconds(10);            // between lines that say whom a stopped job waits for
  Duration kill_after = std::chrono::seconds(10);        // the same after a failure, or before the job runs
};

struct Job {
  std::string name;   // in the record of processes; a file name
  Command scheduler;  // on this machine
  std::function<std::vector<Command>(const std::string& scheduler_address)> others;
  Limits limits;
  std::string record_root;                // job_record.h
  std::function<std::string()> log_hint;  // printed before the error of a job that failed: where to look; may be ""
  std::string stopped_hint;               // printed when a job was stopped with 75: how to go on
  std::vector<Machine> machines = {};     // other hosts on which commands are to run
  std::string run_dir = {};  // made if there are any: what processes print on hosts that do not have it comes
                             // to ROLE-RANK.log in it
  bool allow_mixed_builds = false;
  std::string scheduler_address = {};  // as far as it is known before the scheduler runs: "10.0.0.1:PORT"
};

struct JobEnd {
  int exit_code = 0;                               // of the job (R-L6)
  std::string error;                               // the first one of the process that failed first; empty: none
  std::map<std::string, uint64_t> peak_rss_bytes;  // by process: "worker 3"
};

// A host that cannot be reached, or lacks the executable, is a failed start (Code::kStartup); one that is lost later
// takes its processes with it.
//
// Blocks until all have ended. TERM, INT, USR1 and HUP stop the job: TERM to all, then the time for each to end its
// step and for rank 0 to write a checkpoint, then KILL; a second INT kills at once. USR2 is passed on. What ended the
// job is the last thing that is printed: the first error of the process that failed first, or which process was killed
// and what the others saw of it. An Error only when nothing could be started. The process has one thread.
Result<JobEnd> supervise(const Job& job, Screen& screen);

}  // namespace dtrain::launch
