// Continuing a run: takes over its flags, refuses changes to flags that must stay, and compares a run with flags.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/spec/job_spec.h"

namespace dtrain::job {

// Reads the JobSpec of the run in the directory that --resume names. An error says what is wrong with the directory and
// what to give instead.
Result<JobSpec> read_resumed(const std::string& directory);

// Sets `flags` to the values of the run: all flags of the job, and with `recalls` also the remembered ones
// (remembered.h). `recalls` is true in a process that was given no role. `given` names the flags that are applied after
// this.
Result<> take_resumed(const JobSpec& run, bool recalls, const std::vector<std::string>& given, Flags& flags);

// For --resume auto: the run keeps as many checkpoints as before, unless the flags give --keep.
void take_kept_checkpoints(const JobSpec& run, Flags& flags);

// Refuses changes to flags that a run must keep: another network would not fit its weights, another seed would change
// its order of records. Code::kUsage names the flags, with both values.
Result<> check_resumed(const JobSpec& run, const Flags& flags, const std::string& directory);

// For --resume auto: how the job and its files differ from those of the run, as text for a message. Empty if it is the
// same job. The number of epochs may differ, and the seed if none was given. `flags` must include what the data set
// decides (data_set.h). `directory` is the current directory.
std::string differences_from_run(const JobSpec& run, const Flags& flags, const std::string& directory);

}  // namespace dtrain::job
