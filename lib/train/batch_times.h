// How long each batch of a run took, for benchmarks (--time-batches-after). See docs/formats.md, "Run directory".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/waits.h"
#include "job/process/coordinator.h"
#include "kvstore/store.h"

namespace dtrain::train {

// A worker's batches after the first ones. Each time runs from the end of the batch before, or from the beginning of
// the epoch, to the end of the batch; the last one of an epoch ends when its weights have arrived.
class BatchTimes {
 public:
  // `after`: the batches at the beginning that do not count. Nullopt: none counts, and nothing is shared or written.
  explicit BatchTimes(std::optional<int64_t> after) : after_(after) {}

  void begin_epoch(SteadyTime now) { last_ = now; }
  // A step has ended that waited for its batch for `data_wait`. `times`: of the store, so far.
  void step(SteadyTime end, SteadyTime::duration data_wait, int64_t samples, const kvstore::StoreTimes& times);
  // The weights of the last batch have arrived.
  void end_epoch(SteadyTime now, const kvstore::StoreTimes& times);

  // All workers call it after the run: the file of --time-batches-after, which has this worker's times, and of all
  // workers the samples and the times of the slowest. Nullopt if none was asked for.
  [[nodiscard]] Result<std::optional<std::string>> share(job::Coordinator& coordinator) const;

 private:
  std::optional<int64_t> after_;
  SteadyTime last_;
  int64_t steps_ = 0;
  int64_t samples_ = 0;  // of the batches that count, as are the members below
  double seconds_ = 0;   // the sum of batches_ms_
  std::vector<double> batches_ms_;
  double wait_data_s_ = 0;
  kvstore::StoreTimes before_, now_;
};

// The file's name in the run directory.
std::string batch_times_file(uint32_t rank);

}  // namespace dtrain::train
