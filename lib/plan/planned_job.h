// The job that `dtrain plan` plans for, made from its flags and from the speeds of its workers.
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

// Refuses what would fail once the workers have been measured: files that must not be overwritten, an unknown data set
// or network. Sets the flags that the data set decides.
Result<> prepare_plan(job::Flags& flags);

// Where the calibration job writes its files: beside the run directories, or in the job's own.
std::string calibration_dir(const job::Flags& flags);

// Takes the speeds from the run directory of a calibration job in which each worker has measured `batches` batches.
// `flags` are those of the real job.
Result<PlannedJob> job_of_calibration(const job::Flags& flags, const std::string& run_dir, int64_t batches);

// `arguments`, the flags of a job; if `path` is a run directory with a JobSpec, the flags of that run fill in what they
// do not say. An Error: `path` is neither a run directory nor a log.
Result<std::vector<std::string>> with_flags_of_run(std::vector<std::string> arguments, const std::string& path);

// Takes the speeds from the log of a run, or from a run directory: from the time of the workers' own steps, or from
// their logs if that is not there. The job has as many workers as the flags say, or as the log has if the flags do not
// say it.
Result<PlannedJob> job_of_log(const job::Flags& flags, const std::string& path);

}  // namespace dtrain::plan
