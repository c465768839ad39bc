// Runs programs on this host for a short time. run_all() and run() wait for them. A Run does not block its caller,
// which can continue to handle signals and the screen.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "proc/children.h"
#include "proc/signal_queue.h"

namespace dtrain::proc {

struct Finished {
  int status = 0;                                      // how the program ended, as wait() reports it
  std::optional<std::chrono::milliseconds> over = {};  // the time limit, if the program was killed because of it
  std::vector<std::string> output = {};                // the lines that the program has printed on stdout
  std::vector<std::string> errors = {};                // the lines that the program has printed on stderr

  // True if it exited with the exit code `code`.
  [[nodiscard]] bool ended_with(int code) const;
  void add(const OutputLine& line) { (line.is_stdout ? output : errors).push_back(line.text); }
};

// "ended with code 7" or "was killed by signal 9 (Killed)". `status` is the value that wait() returned.
std::string how_it_ended(int status);

// Why a run failed: "'sbatch job' ended with code 1: sbatch: error: ...".
std::string failure_of(const std::vector<std::string>& arguments, const Finished& finished);

struct RunAllOptions {
  ChildrenOptions children = {};
  size_t at_once = 16;
  std::chrono::milliseconds limit{0};  // time limit for all programs together; 0: no limit
  // Called whenever a program has ended; if it returns false, the others are stopped.
  std::function<bool(size_t program, const Finished&)> goes_on = {};
  // Called with the pid as soon as a program has started; if it fails, the program is killed.
  std::function<Result<>(size_t program, pid_t)> on_start = {};
  // Called for each line of stdout as soon as it arrives. If it returns true, the line is not kept in Finished.
  std::function<bool(size_t program, const std::string& line)> takes_line = {};
};

// Runs all programs and returns one Finished for each of them. Programs that were not started, because goes_on returned
// false or the time limit was reached, have the status -1. Code::kStartup: a program cannot be executed.
// Code::kPreempted: a signal arrived, and all programs were ended.
Result<std::vector<Finished>> run_all(const std::vector<Program>& programs, const RunAllOptions& options,
                                      SignalQueue& signals);

// Like run_all(), for a single program.
Result<Finished> run(const Program& program, SignalQueue& signals, std::chrono::milliseconds limit = {});

// Runs a program that must succeed, and returns the lines of its stdout. Code::kStartup, with the text of failure_of(),
// if its exit code is not 0.
Result<std::vector<std::string>> output_of(const Program& program, SignalQueue& signals,
                                           std::chrono::milliseconds limit = {});

class Run {
 public:
  // Starts a program, which is killed after `limit`. Code::kStartup if it cannot be executed.
  static Result<Run> start(const Program& program, std::chrono::milliseconds limit);

  // Appends the descriptors to poll, as Children::watch() does.
  void watch(std::vector<pollfd>& watched) const { children_->watch(watched); }
  [[nodiscard]] std::optional<Clock::time_point> wakes_at() const;
  // Returns the program's output and how it ended, as soon as it has ended; nullopt before that.
  std::optional<Finished> take();

 private:
  Run(std::unique_ptr<Children> children, std::chrono::milliseconds limit)
      : children_(std::move(children)), limit_(limit), deadline_(Clock::now() + limit) {}

  std::unique_ptr<Children> children_;
  std::chrono::milliseconds limit_;
  Clock::time_point deadline_;
  Finished finished_;
};

}  // namespace dtrain::proc
