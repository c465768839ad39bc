// What a worker's step loop needs from the rest of the job: it agrees with the other workers and learns when the job is
// over.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::job {

struct WorkerProgress {
  uint64_t step = 0;
  double samples_per_s = 0;    // of this worker
  double wait_data_share = 0;  // of the time since the last report
  double wait_network_share = 0;
};

// Called by one thread. Every wait has a time limit. Once the job has failed, every call returns the job's first error.
class Coordinator {
 public:
  virtual ~Coordinator() = default;
  [[nodiscard]] virtual uint32_t rank() const = 0;
  [[nodiscard]] virtual uint32_t workers() const = 0;

  // Called before each step. True: go on. False: the job was asked to stop (by a signal). All workers of a stop set
  // stop before the same step, and rank 0 writes a checkpoint. Costs one atomic load unless a stop is under way.
  virtual Result<bool> may_begin(uint64_t step) = 0;
  // A barrier that adds numbers: all workers call it with the same name and count, and each gets the sums, added in
  // rank order. An empty span makes it a plain barrier.
  Result<std::vector<double>> sum(const std::string& name, std::span<const double> values) {
    return meet(name, values, {});
  }
  // Like sum(), but also replaces the stop sets: from now on, workers with the same number in `stop_set_of`, indexed by
  // rank, stop before the same step. All workers pass the same values. Empty: the stop sets do not change.
  virtual Result<std::vector<double>> meet(const std::string& name, std::span<const double> values,
                                           std::span<const uint32_t> stop_set_of) = 0;
  // The next heartbeat carries it to the scheduler.
  virtual void report(const WorkerProgress& progress) = 0;
};

}  // namespace dtrain::job
