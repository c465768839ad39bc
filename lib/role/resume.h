// Finding the run that --resume and --retrain name, and the checkpoint that it goes on from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/job_spec.h"

namespace dtrain::role {

// The run that is continued.
struct Resumed {
  std::string directory;
  job::JobSpec spec;
};

struct ResumeSearch {
  std::optional<Resumed> run;      // nothing: a new run begins
  bool is_finished = false;        // it has done as many epochs as the flags ask for
  std::vector<std::string> notes;  // for the user: what is resumed, or why nothing is
};

// --resume DIR: that run. Code::kNotFound: the directory holds no run, or no checkpoint; kUsage: the flags contradict
// it. --resume auto: the newest run of this job that has a checkpoint, in --run-dir if that is given, else under the
// directory of default run directories; if there is none, the notes say what was looked at. --retrain: the same, but
// kNotFound if there is none. A process with a role is told by its launcher and finds its checkpoint when it trains.
Result<ResumeSearch> find_resumed(const job::Flags& flags);

// The prefix of checkpoints to write: --save-model-prefix, --model-prefix, else RUN_DIR/NETWORK.
std::string save_prefix(const job::Flags& flags, const std::string& run_dir);
// The prefix to read: of a resumed run the one that it wrote, unless --model-prefix now names another one. Without a
// resumed run --model-prefix, else RUN_DIR/NETWORK.
std::string load_prefix(const job::Flags& flags, const std::string& run_dir, const std::optional<Resumed>& resumed);

}  // namespace dtrain::role
