// Finds the run that --resume or --retrain names, and the prefix of the checkpoint to continue from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/spec/job_spec.h"
#include "train/start.h"

namespace dtrain::role {

// The run to continue.
struct Resumed {
  std::string directory;
  job::JobSpec spec;
};

struct ResumeSearch {
  std::optional<Resumed> run;      // the run to continue; nullopt: a new run begins
  bool is_finished = false;        // the run has already done the epochs that the flags ask for
  std::vector<std::string> notes;  // messages for the user: what is resumed, or why nothing is resumed
};

// With --resume DIR: returns that run. Code::kNotFound if the directory contains no run or no checkpoint; kUsage if the
// flags contradict the run.
// With --resume auto: returns the newest run of this job that has a checkpoint. Searches --run-dir if that is given,
// else the parent of the default run directories. If there is none, the notes list the runs that were considered.
// With --retrain: the same, but Code::kNotFound if there is none.
// A process with a role gets the directory from its launcher, and finds out whether there is a checkpoint only when it
// trains. If the launcher has started the job again, the run is that of --run-dir, once it has begun there.
Result<ResumeSearch> find_resumed(const job::Flags& flags);

// Where worker 0 starts: at the checkpoint that the flags name; nullopt: with initial weights. If the launcher has
// started the job again, at the newest checkpoint that the run has written; if it has written none, where it started
// first. Code::kUsage: after a restart it could not be told which checkpoints the run itself has written.
Result<std::optional<train::StartFrom>> start_of(const job::Flags& flags, const std::string& run_dir,
                                                 const std::optional<Resumed>& resumed);

// The prefix of the checkpoints to write: --save-model-prefix, else --model-prefix, else RUN_DIR/NETWORK.
std::string save_prefix(const job::Flags& flags, const std::string& run_dir);
// The prefix of the checkpoints to read. For a resumed run it is the prefix that the run wrote to, unless
// --model-prefix has changed since. Without a resumed run it is --model-prefix, else RUN_DIR/NETWORK.
std::string load_prefix(const job::Flags& flags, const std::string& run_dir, const std::optional<Resumed>& resumed);

}  // namespace dtrain::role
