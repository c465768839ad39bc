// Runs commands on the hosts of a job and collects their output, for a tool that queries the hosts. A host that cannot
// be reached is a result, not an error. As with any Host, everything that runs there ends when this object is
// destroyed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/host.h"
#include "launch/job.h"
#include "proc/run.h"
#include "proc/signal_queue.h"

namespace dtrain::launch {

class HostRuns {
 public:
  // `mark`: as for make_hosts (hosts.h). Code::kStartup: the tool that connects to the hosts cannot be executed here.
  static Result<std::unique_ptr<HostRuns>> create(const Job& job, const std::string& mark);
  // Waits at most a few seconds for the commands to end on all hosts.
  ~HostRuns();
  HostRuns(const HostRuns&) = delete;
  HostRuns& operator=(const HostRuns&) = delete;

  // Starts a command on the host Command::host_number. Returns the number of the run.
  Result<size_t> start(const Command& command);

  // Whether what a run has written so far is enough.
  using Enough = std::function<bool(const proc::Finished& so_far)>;
  // Waits until each of the runs has ended, is lost with its host, or satisfies `enough`, but not longer than `until`.
  // Code::kPreempted: a signal arrived.
  Result<> wait(const std::vector<size_t>& runs, Clock::time_point until, const Enough& enough = nullptr);

  // The output of the run so far, and its status once it has ended (-1 before).
  [[nodiscard]] const proc::Finished& run(size_t number) const { return runs_.at(number).result; }
  [[nodiscard]] bool ended(size_t number) const { return runs_.at(number).ended; }
  // Why a host is lost, indexed by Command::host_number; nullopt: it is not lost.
  [[nodiscard]] const std::optional<Error>& lost(size_t host_number) const { return lost_.at(host_number); }
  [[nodiscard]] bool shares_run_dir(size_t host_number) const { return hosts_.at(host_number)->shares_run_dir(); }

 private:
  struct Run {
    size_t host_number = 0;
    proc::Finished result{-1};
    bool ended = false;
  };

  HostRuns() = default;
  void wait_for_events(Clock::time_point until);
  void take_events();

  proc::SignalQueue signals_;
  std::vector<std::unique_ptr<Host>> hosts_;  // the hosts, in the order of make_hosts()
  std::vector<std::optional<Error>> lost_;    // why each host is lost; nullopt: it is not lost
  std::vector<Run> runs_;
};

}  // namespace dtrain::launch
