// The job for which `dtrain plan` makes a plan, from its flags and the speeds of its workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/plan.h"

namespace dtrain::job {
struct Flags;
struct LaunchFlags;
}  // namespace dtrain::job

namespace dtrain::plan {

// The files that the job's flags name.
PlanFiles plan_files(const job::LaunchFlags& flags);

// Detects errors before the workers are measured: files that must not be overwritten, an unknown data set or network.
// Sets the flags that depend on the data set.
Result<> prepare_plan(job::Flags& flags);

// The directory for the files of the calibration job: next to the run directories, or within the job's own.
std::string calibration_dir(const job::Flags& flags);

// Takes the speeds from the run directory of a calibration job in which each worker has measured `batches` batches.
// `flags` are those of the real job.
Result<PlannedJob> job_of_calibration(const job::Flags& flags, const std::string& run_dir, int64_t batches);

// Returns `arguments`, the flags of a job. If `path` is a run directory with a JobSpec, flags of that run are added
// where `arguments` do not set them. Returns an Error if `path` is neither a run directory nor a log.
Result<std::vector<std::string>> with_flags_of_run(std::vector<std::string> arguments, const std::string& path);

// Takes the speeds from the log of a run, or from a run directory: from the time of the workers' own steps if it is
// recorded, else from their logs. The number of workers is that of the flags, or that of the log if the flags do not
// give it.
Result<PlannedJob> job_of_log(const job::Flags& flags, const std::string& path);

}  // namespace dtrain::plan
