// What a run says of itself while it goes on and when it ends.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/error.h"
#include "job/job_spec.h"
#include "job/progress.h"
#include "kvstore/coordinator.h"
#include "role/process.h"
#include "train/trainer.h"

namespace dtrain::role {

using Clock = std::chrono::steady_clock;

// The whole job's progress from one report of each worker. Steps are those of a worker on average.
job::Progress job_progress(const job::JobSpec& spec, const std::vector<kvstore::Progress>& workers);

// Writes summary.json of the run, complete but for what only the launcher knows, and says how the run ended. Returns
// the exit code of a run that trained (0), or was stopped (75); hands on the Error of one that failed.
Result<int> conclude(const Process& process, const job::JobSpec& spec, const train::TrainOutcome& outcome,
                     const Result<train::TrainOutcome>& result, Clock::time_point started);

// What a launcher adds to RUN_DIR/summary.json when all processes have ended: the job's name and exit code, its first
// error, and the processes' memory. Makes the file where no worker got so far.
struct JobEnd {
  std::string job;  // its name, as dtrain ps has it
  int exit_code = 0;
  std::string error;                               // the first one; empty: none
  std::map<std::string, uint64_t> peak_rss_bytes;  // by role: "worker 0"
};
Result<> complete_summary(const std::string& run_dir, const job::Flags& flags, const JobEnd& end);

}  // namespace dtrain::role
