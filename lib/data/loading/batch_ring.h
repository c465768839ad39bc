// Decides which rows of which batch a decoder thread fills next, and when a batch is complete.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"

namespace dtrain::data {

// Batches are filled in a ring of slots: batch b is in slot b modulo the number of slots. The consumer holds one batch
// while decoders fill the batches after it. A decoder takes runs of rows in order. One thread is the consumer. Any
// number of threads are decoders, of which only the first `decoders` work.
class BatchRing {
 public:
  struct Options {
    int64_t slots = 2;       // at least two: the consumer's batch, and the next one
    int64_t batch_size = 1;  // rows in a batch
    int64_t batches = 1;     // batches in an epoch
    int64_t run_rows = 1;
    int decoders = 1;
    std::chrono::seconds wait_max{600};  // the consumer gives up if no decoder finishes a run for this long
  };
  // Rows [begin, end) of one batch.
  struct Run {
    int64_t batch = 0, begin = 0, end = 0;
  };

  explicit BatchRing(const Options& options);
  [[nodiscard]] int64_t slot_of(int64_t batch) const { return batch % options_.slots; }

  // For decoders; `decoder` is the number of the calling thread. take_run() waits for a run; it returns nullopt after
  // stop(). The decoder must finish each run that it takes, with the run's result.
  std::optional<Run> take_run(int decoder) DT_EXCLUDES(mutex_);
  void finish_run(const Run& run, Result<> result) DT_EXCLUDES(mutex_);
  // Makes the consumer's next batch fail with `error`.
  void fail_next_batch(const Error& error) DT_EXCLUDES(mutex_);

  // For the consumer. pause() waits until all runs are finished, and prevents new ones until resume(), which begins at
  // batch `first`.
  void pause() DT_EXCLUDES(mutex_);
  void set_batches(int64_t batches) DT_EXCLUDES(mutex_);  // to be called while it is paused
  void resume(int64_t first) DT_EXCLUDES(mutex_);
  // Waits for the next batch and releases the slot of the one before it; nullopt at the end of the epoch.
  Result<std::optional<int64_t>> take_batch() DT_EXCLUDES(mutex_);
  // The batch that take_batch() would return without waiting; nullopt if it is not complete.
  [[nodiscard]] std::optional<int64_t> complete_batch() DT_EXCLUDES(mutex_);
  // The number of complete batches that the consumer has not taken yet. Any thread may call it.
  [[nodiscard]] int64_t ready_batches() DT_EXCLUDES(mutex_);
  void set_decoders(int decoders) DT_EXCLUDES(mutex_);
  void stop() DT_EXCLUDES(mutex_);

 private:
  // How much of a slot the decoders have filled.
  struct Filling {
    int64_t missing = 0;  // number of rows that are not filled yet
    std::optional<Error> error;
  };
  Filling& filling_of(int64_t batch) DT_REQUIRES(mutex_) { return filling_[static_cast<size_t>(slot_of(batch))]; }
  void prepare(int64_t batch) DT_REQUIRES(mutex_);
  bool await(const Filling& filling) DT_REQUIRES(mutex_);

  const Options options_;  // its `batches` is that of the first epoch
  Mutex mutex_;
  int64_t batches_ DT_GUARDED_BY(mutex_);  // batches in an epoch
  ConditionVariable work_, ready_;
  std::vector<Filling> filling_ DT_GUARDED_BY(mutex_);  // the state of each slot
  int64_t next_ DT_GUARDED_BY(mutex_) = 0;              // the batch that take_batch() returns
  Run cursor_ DT_GUARDED_BY(mutex_);                    // the next run begins at row `begin` of `batch`
  int decoders_ DT_GUARDED_BY(mutex_);                  // number of decoders that may take runs
  bool running_ DT_GUARDED_BY(mutex_) = false;          // whether decoders may take runs
  int64_t in_flight_ DT_GUARDED_BY(mutex_) = 0;         // number of runs that were taken but are not finished
  int64_t finished_ DT_GUARDED_BY(mutex_) = 0;          // number of finished runs
  bool stop_ DT_GUARDED_BY(mutex_) = false;
};

}  // namespace dtrain::data
