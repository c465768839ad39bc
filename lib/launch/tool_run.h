// One run of a program on this machine that does not block its caller, who goes on to serve signals and the screen:
// batch systems are asked again and again while a launcher waits for its job.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/local_host.h"
#include "launch/run_all.h"

namespace dtrain::launch {

class ToolRun {
 public:
  // The program is searched for in PATH, and killed after `limit`. Code::kStartup if it cannot be executed. The caller
  // has a SignalQueue, whose SIGCHLD wakes it when the program ends.
  static Result<ToolRun> start(const std::vector<std::string>& arguments, std::chrono::milliseconds limit);

  void watch(std::vector<pollfd>& watched) const { host_->watch(watched); }
  [[nodiscard]] std::optional<Clock::time_point> wakes_at() const;
  // What the program has printed and how it ended, once it has.
  std::optional<Finished> take();

 private:
  ToolRun(std::unique_ptr<LocalHost> host, Clock::time_point deadline) : host_(std::move(host)), deadline_(deadline) {}

  std::unique_ptr<LocalHost> host_;
  Clock::time_point deadline_;
  Finished finished_;
};

// Why a run of a program failed: "'sbatch job' ended with code 1: sbatch: error: ...".
std::string complaint_of(const std::vector<std::string>& arguments, const Finished& finished);

}  // namespace dtrain::launch
