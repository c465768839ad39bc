// What each process of a job did in a period: the difference of two of its snapshots.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "observe/source.h"

namespace dtrain::observe {

// Times are in seconds and of one step, on average, unless they say otherwise.
struct WorkerPeriod {
  uint32_t rank = 0;
  std::string host;
  double steps = 0;   // in the period
  double step_s = 0;  // from the beginning of a step to its end
  double data_wait_s = 0;
  double compute_s = 0;  // forward, backward, update, and what belongs to no phase
  double pull_wait_s = 0;
  double push_s = 0;
  double lateness_s = 0;  // by which its gradients come after the first ones of their rounds, over all servers
  double decode_threads = 0;
  double read_ms = 0;           // to read an image's bytes
  double decode_ms = 0;         // to make a row of a batch of them; 0: nothing is decoded, or not known
  double cores_busy = 0;        // of the process
  double cores_missing = 0;     // threads that were ready to run and had no core, on average
  double read_bytes_per_s = 0;  // from disks
  double sent_bytes = 0;        // of a step
  double samples_per_s = 0;

  // What its step would take if it waited for nobody.
  [[nodiscard]] double own_s() const { return data_wait_s + compute_s + push_s; }
  // Sum of the times for which its threads had no core.
  [[nodiscard]] double core_wait_s() const { return cores_missing * step_s; }
};

struct ServerPeriod {
  uint32_t rank = 0;
  std::string host;
  double busy = 0;     // threads that were busy, on average
  double updates = 0;  // of slices, a second
};

struct JobPeriod {
  double seconds = 0;
  std::vector<WorkerPeriod> workers;  // those that made a step
  std::vector<ServerPeriod> servers;
};

// `before` and `now`: the processes of a job, `seconds` apart. A process that is missing in `before` has begun in
// between, with all values 0.
JobPeriod period_between(const std::vector<Source>& before, const std::vector<Source>& now, double seconds);

}  // namespace dtrain::observe
