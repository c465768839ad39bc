// What a worker's step loop needs of the rest of the job: to agree with the others, and to hear that it is over.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::kvstore {

struct Progress {
  uint64_t step = 0;
  double samples_per_s = 0;    // of this worker
  double wait_data_share = 0;  // of the time since the last report
  double wait_network_share = 0;
};

// One thread calls it. Every wait has a deadline and returns the job's first error when there is one.
class Coordinator {
 public:
  virtual ~Coordinator() = default;
  [[nodiscard]] virtual uint32_t rank() const = 0;
  [[nodiscard]] virtual uint32_t workers() const = 0;

  // Before each step: true: go on. false: the job was asked to stop (a signal); all workers that wait for each other
  // stop before the same step; rank 0 writes a checkpoint. Costs an atomic load unless a stop is under way.
  virtual Result<bool> may_begin(uint64_t step) = 0;
  // A barrier that carries numbers: all workers call it with the same name and count; each gets the sums, added in
  // rank order. An empty span makes it a plain barrier.
  Result<std::vector<double>> sum(const std::string& name, std::span<const double> values) {
    return meet(name, values, {});
  }
  // The same, and from its end on workers with the same number in `stops_with`, by rank, stop before the same step. All
  // bring the same; empty: as before.
  virtual Result<std::vector<double>> meet(const std::string& name, std::span<const double> values,
                                           std::span<const uint32_t> stops_with) = 0;
  // Carried by the next heartbeat.
  virtual void report(const Progress& progress) = 0;
};

}  // namespace dtrain::kvstore
