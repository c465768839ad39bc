// Reports of a run: its progress, and how it ended.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/error.h"
#include "job/process/coordinator.h"
#include "job/process/progress.h"
#include "job/process/time_left.h"
#include "job/spec/job_plan.h"
#include "job/spec/job_spec.h"
#include "observe/slow.h"
#include "role/process/process.h"
#include "train/trainer.h"

namespace dtrain::role {

using Clock = std::chrono::steady_clock;

// The current progress of the whole job, from the newest report of each worker. `step` and `steps` are averages over
// the workers. `left` estimates the remaining time from all reports, so every call must pass the same object.
job::Progress job_progress(const job::JobFlags& flags, const job::JobPlan& plan,
                           const std::vector<job::WorkerProgress>& workers, job::TimeLeft& left);

// Writes summary.json from the metrics of the process, complete except for what only the launcher knows, and logs how
// the run ended. Returns the exit code of a run that finished (0) or was stopped (75), or the Error of `outcome` if the
// run failed. `conclusion` is empty in a job of several processes, because the scheduler draws it there.
Result<int> report_end(const Process& process, const job::JobSpec& spec, const Result<train::TrainOutcome>& outcome,
                       Clock::time_point started, const observe::Conclusion& conclusion = {});

// Logs how the workers spent their time over the whole run, and the one change that would help most, and returns both.
// Logs nothing if no worker made a step.
observe::Conclusion conclude_run(const Log& log, const observe::JobPeriod& run, const observe::JobForm& form);
// Describes the job for conclude_run. `flags`: those of the JobSpec.
observe::JobForm job_form(const Process& process, const job::JobFlags& flags);

// What a launcher adds to RUN_DIR/summary.json when all processes have ended: the job's name and exit code, its first
// error, the peak memory of the processes, and the scheduler's findings (job/process/scheduler_lines.h). The file is
// created if no worker has written it.
struct JobEnd {
  std::string job;  // the name under which `dtrain ps` shows the job
  int exit_code = 0;
  std::string error;  // the first error of the job; empty: none
  // Peak memory of each process, indexed by its name, such as "worker 0".
  std::map<std::string, uint64_t> peak_rss_bytes;
  std::vector<std::string> findings = {};  // the scheduler's findings, as JSON objects
  // Each failure after which the launcher has started the job again.
  struct Restart {
    std::string cause;
    int64_t step = 0;                    // the last step that the job had reported
    std::optional<double> seconds = {};  // the time until it had again reached that step; nullopt: it has not
  };
  std::vector<Restart> restarts = {};
};
Result<> complete_summary(const std::string& run_dir, const job::Flags& flags, const JobEnd& end);

}  // namespace dtrain::role
