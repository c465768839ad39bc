// Continuing a run: its flags, those that may not change, and whether it is the run that flags ask for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/job_spec.h"

namespace dtrain::job {

// The JobSpec of the run that --resume names. An error says what is wrong with the directory and what to give instead.
Result<JobSpec> read_resumed(const std::string& directory);

// Gives the flags what --resume DIR need not repeat: all of the job, and in a process that no launcher and no hand gave
// a role (`recalls`) what the run remembers. `given`: the names of the flags of the command line.
Result<> take_resumed(const JobSpec& run, bool recalls, const std::vector<std::string>& given, Flags& flags);

// Refuses flags of the job that a run cannot change: another network would not fit its weights, another seed its order
// of records. Code::kUsage names them, with both values.
Result<> check_resumed(const JobSpec& run, const Flags& flags, const std::string& directory);

// What --resume auto asks: how the job and its files differ from those of the run, for a message; empty: it is the same
// job. The number of epochs may differ, and the seed if none was given. `flags`: complete (data_set.h). `directory`:
// the current one.
std::string differences_from_run(const JobSpec& run, const Flags& flags, const std::string& directory);

}  // namespace dtrain::job
