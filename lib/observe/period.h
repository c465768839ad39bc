// What each process of a job did in a period: the difference between two of its snapshots.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "observe/source.h"

namespace dtrain::observe {

// Times are in seconds, averaged over the steps, unless the comment says otherwise.
struct WorkerPeriod {
  uint32_t rank = 0;
  std::string host;
  double steps = 0;   // number of steps in the period
  double step_s = 0;  // from the beginning of a step to its end
  double data_wait_s = 0;
  double compute_s = 0;  // time of forward, backward and update, and time that belongs to no phase
  double pull_wait_s = 0;
  double push_s = 0;
  // How long after the first gradients of their rounds its own gradients arrive, summed over all servers.
  double lateness_s = 0;
  double decode_threads = 0;
  double read_ms = 0;  // time to read an image's bytes
  // Time to turn these bytes into a row of a batch; 0: nothing is decoded, or the time is not known.
  double decode_ms = 0;
  double cores_busy = 0;        // average number of busy cores of the process
  double cores_missing = 0;     // average number of threads that were ready to run but had no core
  double read_bytes_per_s = 0;  // bytes per second that are read from disks
  double sent_bytes = 0;        // bytes that are sent in one step
  double samples_per_s = 0;

  // The time that a step would take if the worker waited for no other process.
  [[nodiscard]] double own_s() const { return data_wait_s + compute_s + push_s; }
  // The time that its threads were ready to run but had no core, summed over the threads.
  [[nodiscard]] double core_wait_s() const { return cores_missing * step_s; }
};

struct ServerPeriod {
  uint32_t rank = 0;
  std::string host;
  double busy = 0;     // average number of busy threads
  double updates = 0;  // updates of slices per second
};

struct JobPeriod {
  double seconds = 0;
  std::vector<WorkerPeriod> workers;  // the workers that made a step
  std::vector<ServerPeriod> servers;
};

// `before` and `now`: the processes of a job at two times, `seconds` apart. A process that is missing in `before` is
// assumed to have started in between, with all values 0.
JobPeriod period_between(const std::vector<Source>& before, const std::vector<Source>& now, double seconds);

}  // namespace dtrain::observe
