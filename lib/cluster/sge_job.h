// Grid Engine, for a batch follower: the commands, and the meaning of their output.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/batch_system.h"
#include "cluster/sge_script.h"

namespace dtrain::cluster {

// The part of qstat's output about a job that is used here.
struct SgeState {
  std::vector<std::string> running, waiting;  // numbers of tasks, such as "1" or "2-3:1"; "" for a job without tasks
  std::string queue;                          // queue of the first running task: "all.q@node1"
  std::string state;                          // state of the first waiting task: "qw", "Eqw"
  std::string reason = {};                    // reason of the error, if the state is an error
};
// Nullopt: qstat does not list the job. `lines`: the output of qstat, then that of qstat -j.
std::optional<SgeState> parse_qstat(const std::vector<std::string>& lines, const std::string& number);
BatchState state_of(const SgeState& state, const std::string& number);

// `script`: path of the file that contains qsub_script(job).
std::unique_ptr<BatchSystem> sge_batch(const SgeJob& job, const std::string& script);

}  // namespace dtrain::cluster
