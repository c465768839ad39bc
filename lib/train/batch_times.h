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

// Times a worker's batches, leaving out the first ones. Each time runs from the end of the previous batch, or from the
// beginning of the epoch, to the end of the batch. The last batch of an epoch ends when its weights have arrived.
class BatchTimes {
 public:
  // `after`: the number of batches at the beginning that are not timed. Nullopt: nothing is timed, and share() returns
  // nullopt.
  explicit BatchTimes(std::optional<int64_t> after) : after_(after) {}

  void begin_epoch(SteadyTime now) { last_ = now; }
  // To be called when a step has ended. `data_wait`: how long the step waited for its batch. `times`: the store's total
  // times so far.
  void step(SteadyTime end, SteadyTime::duration data_wait, int64_t samples, const kvstore::StoreTimes& times);
  // To be called when the weights of the last batch have arrived.
  void end_epoch(SteadyTime now, const kvstore::StoreTimes& times);

  // All workers call it after the run. Returns the content of the file for --time-batches-after: this worker's times,
  // the number of samples of all workers, and the times of the slowest worker. Nullopt if no file was requested.
  [[nodiscard]] Result<std::optional<std::string>> share(job::Coordinator& coordinator) const;

 private:
  std::optional<int64_t> after_;
  SteadyTime last_;
  int64_t steps_ = 0;
  int64_t samples_ = 0;  // samples of the timed batches; the members below cover the same batches
  double seconds_ = 0;   // the sum of batches_ms_
  std::vector<double> batches_ms_;
  double wait_data_s_ = 0;
  kvstore::StoreTimes before_, now_;
};

// The file's name in the run directory.
std::string batch_times_file(uint32_t rank);

}  // namespace dtrain::train
