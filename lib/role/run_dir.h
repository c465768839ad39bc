// The directory that a run leaves behind, and how a later run finds it again. design.md section 7.
//
//   jobspec             text of the JobSpec (job/job_spec.h)
//   ROLE-RANK.log       a log of each process
//   metrics.jsonl, summary.json
//   NETWORK-*.params, .states, NETWORK-symbol.json    checkpoints, unless --model-prefix says otherwise
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "job/job_spec.h"

namespace dtrain::role {

// The run that --resume names.
struct Resumed {
  std::string directory;
  job::JobSpec spec;
};

// --resume DIR: that run; Code::kNotFound if it is none. --resume auto: the newest run of this job (all keys but
// num-epochs and a seed that was not given agree) under the directory of default run directories; none: nothing.
Result<std::optional<Resumed>> find_resumed(const job::Flags& flags);

// --run-dir, else the resumed run's own directory, else a new one by network and time. Not created yet.
std::string choose_run_dir(const job::Flags& flags, const std::optional<Resumed>& resumed);

// The prefix of checkpoints to write: --save-model-prefix, --model-prefix, else RUN_DIR/NETWORK.
std::string save_prefix(const job::Flags& flags, const std::string& run_dir);
// The prefix to read: --model-prefix, else the resumed run's, else RUN_DIR/NETWORK.
std::string load_prefix(const job::Flags& flags, const std::string& run_dir, const std::optional<Resumed>& resumed);

}  // namespace dtrain::role
