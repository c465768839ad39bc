// The interface to a batch system that the follower of a job uses (batch_follower.h). The system is reached through
// commands on this host. The functions only build command lines and parse output; they run nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "proc/run.h"

namespace dtrain::cluster {

struct BatchState {
  enum class Phase {
    kWaiting,
    kRunning,
    kEnding,
    kEnded
  };  // kEnding: the job's last processes are ending; afterwards the job may be queued again
  Phase phase = Phase::kWaiting;
  std::string queue = {};        // queue in which the job waits
  std::string text = {};         // while the job waits: "waiting in partition debug: Resources"; later: "runs on node1"
  std::string advice = {};       // advice for the user if the job waits for something unlikely; may be empty
  std::string never = {};        // the reason why the job will never start; empty: it may start
  int64_t restarts = 0;          // how often the system has put the job back into the queue
  int code = 0;                  // exit code of the command, if the job has ended
  std::optional<Error> failure;  // why the system has ended the job, in the system's words; nullopt: it has not
};

class BatchSystem {
 public:
  using Words = std::vector<std::string>;

  BatchSystem() = default;
  BatchSystem(const BatchSystem&) = delete;
  BatchSystem& operator=(const BatchSystem&) = delete;
  virtual ~BatchSystem() = default;

  [[nodiscard]] virtual std::string name() const = 0;     // the system's name, such as "Slurm"
  [[nodiscard]] virtual std::string missing() const = 0;  // what to do if the system's commands are not installed
  [[nodiscard]] virtual Words submit() const = 0;
  // Finds the job's number in the output of submit().
  [[nodiscard]] virtual Result<std::string> job_of(const Words& lines) const = 0;
  // list() is a command that lists the user's jobs, and job_in() finds the number of this job in its output. They are
  // used if it is not known whether a submission has succeeded. Empty: there is no such command.
  [[nodiscard]] virtual Words list() const { return {}; }
  [[nodiscard]] virtual std::optional<std::string> job_in(const Words&) const { return std::nullopt; }

  [[nodiscard]] virtual Words question(const std::string& job) const = 0;
  // Code::kNotFound: the system does not know the job; kUnavailable: the system did not answer; the message has the
  // system's own words.
  [[nodiscard]] virtual Result<BatchState> state_of(const std::string& job, const proc::Finished& answer) const = 0;
  // queue() is a command that lists the jobs waiting for the same hosts, in order, one per line. position_in() finds
  // the place of this job in its output: "position 3 of 12", or "". Empty: there is no such command.
  [[nodiscard]] virtual Words queue(const std::string& /*job*/, const BatchState& /*now*/) const { return {}; }
  [[nodiscard]] virtual std::string position_in(const Words&, const std::string&) const { return ""; }

  // A command that sends a signal to the launcher in a running job. TERM ends the job with a checkpoint.
  [[nodiscard]] virtual Words signal(const std::string& job, int number) const = 0;
  [[nodiscard]] virtual Words cancel(const std::string& job) const = 0;

  // Files of the job: its output, and a file that contains its exit code at the end.
  [[nodiscard]] virtual std::string output_file(const std::string& job) const = 0;
  [[nodiscard]] virtual std::string code_file(const std::string& job) const = 0;
};

}  // namespace dtrain::cluster
