// A batch system, as the follower of a job uses it (batch_follower.h): by commands of this host. The functions only
// make command lines and read what the commands print; they run nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "proc/run.h"

namespace dtrain::cluster {

struct BatchState {
  enum class Phase { kWaiting, kRunning, kEnding, kEnded };  // kEnding: its last processes end; it may be queued again
  Phase phase = Phase::kWaiting;
  std::string queue = {};        // in which it waits
  std::string text = {};         // while it waits: "waiting in partition debug: Resources"; afterwards: "runs on node1"
  std::string advice = {};       // for the user, if it waits for something unlikely; may be empty
  std::string never = {};        // why it will never start; empty: it may
  int64_t restarts = 0;          // how often the system has put it back into the queue
  int code = 0;                  // of a job that has ended: the exit code of what it ran
  std::optional<Error> failure;  // of a job that the system has ended, in the system's words
};

class BatchSystem {
 public:
  using Words = std::vector<std::string>;

  BatchSystem() = default;
  BatchSystem(const BatchSystem&) = delete;
  BatchSystem& operator=(const BatchSystem&) = delete;
  virtual ~BatchSystem() = default;

  [[nodiscard]] virtual std::string name() const = 0;     // "Slurm"
  [[nodiscard]] virtual std::string missing() const = 0;  // what to do if its commands are not installed
  [[nodiscard]] virtual Words submit() const = 0;
  // The job's number, from what submit() has printed.
  [[nodiscard]] virtual Result<std::string> job_of(const Words& lines) const = 0;
  // A command that lists the user's jobs, and the number of this job in its output: for a submission of which it is not
  // known whether it has succeeded. Empty: there is no such command.
  [[nodiscard]] virtual Words list() const { return {}; }
  [[nodiscard]] virtual std::optional<std::string> job_in(const Words&) const { return std::nullopt; }

  [[nodiscard]] virtual Words question(const std::string& job) const = 0;
  // Code::kNotFound: the system does not know the job; kUnavailable: it has not answered, in its own words.
  [[nodiscard]] virtual Result<BatchState> state_of(const std::string& job, const proc::Finished& answer) const = 0;
  // A command that lists the jobs that wait for the same hosts, in order, one a line, and the place of this job in its
  // output: "position 3 of 12", or "". Empty: there is no such command.
  [[nodiscard]] virtual Words queue(const std::string& /*job*/, const BatchState& /*now*/) const { return {}; }
  [[nodiscard]] virtual std::string position_in(const Words&, const std::string&) const { return ""; }

  // Sends a signal to the launcher in a running job. TERM ends the job with a checkpoint.
  [[nodiscard]] virtual Words signal(const std::string& job, int number) const = 0;
  [[nodiscard]] virtual Words cancel(const std::string& job) const = 0;

  // Files of the job: what it prints, and one that holds its exit code at the end.
  [[nodiscard]] virtual std::string output_file(const std::string& job) const = 0;
  [[nodiscard]] virtual std::string code_file(const std::string& job) const = 0;
};

}  // namespace dtrain::cluster
