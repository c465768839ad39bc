// Creates the PlannedJob for `dtrain plan` from the job's flags and the speeds of its workers.
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

// The paths of the plan's files, which the job's flags give.
PlanFiles plan_files(const job::LaunchFlags& flags);

// Detects errors before the speeds are measured: files that must not be overwritten, an unknown data set or network.
// Sets the flags that depend on the data set.
Result<> prepare_plan(job::Flags& flags);

// The directory for the files of the calibration job: either in the directory of the run directories, or inside the
// job's own run directory.
std::string calibration_dir(const job::Flags& flags);

// Takes the speeds from the run directory of a calibration job in which each worker has measured `batches` batches.
// `flags` are those of the job to plan for, not those of the calibration job.
Result<PlannedJob> job_of_calibration(const job::Flags& flags, const std::string& run_dir, int64_t batches);

// Returns `arguments`, the flags of a job. If `path` is a run directory with a JobSpec, the flags of that run are
// added, except those that `arguments` sets itself. Returns an Error if `path` is neither a run directory nor a log.
Result<std::vector<std::string>> with_flags_of_run(std::vector<std::string> arguments, const std::string& path);

// Takes the speeds from a log or a run directory at `path`: from the recorded durations of the workers' own steps if
// there are any, otherwise from the logs. The number of workers is taken from the flags, or from the log if the flags
// do not set it.
Result<PlannedJob> job_of_log(const job::Flags& flags, const std::string& path);

}  // namespace dtrain::plan
