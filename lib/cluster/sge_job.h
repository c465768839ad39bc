// A job of Grid Engine, as a batch follower sees it: the commands, and the meaning of what they print.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/batch_system.h"
#include "cluster/sge_script.h"

namespace dtrain::cluster {

// What qstat says about a job, as far as it is used.
struct SgeState {
  std::vector<std::string> running, waiting;  // tasks, or "" for a job without tasks: "1", "2-3:1"
  std::string queue;                          // "all.q@node1": of the first one that runs
  std::string state;                          // of the first one that waits: "qw", "Eqw"
  std::string reason = {};                    // of an error
};
// Nullopt: qstat does not list the job. `lines`: what qstat and then qstat -j have printed.
std::optional<SgeState> parse_qstat(const std::vector<std::string>& lines, const std::string& number);
BatchState state_of(const SgeState& state, const std::string& number);

// `script`: the file with qsub_script(job).
std::unique_ptr<BatchSystem> sge_batch(const SgeJob& job, const std::string& script);

}  // namespace dtrain::cluster
