// Writes checkpoints on a thread of its own. Training stands still only while the checkpoint is copied in memory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/waits.h"
#include "kvstore/store.h"
#include "tensor/parameters.h"
#include "train/checkpoint.h"

namespace dtrain::train {

// A copy of everything that one save writes. Each save fills the same memory again.
class Snapshot {
 public:
  // Takes the memory for the weights, statistics and optimizer state of this network. The first write to new memory
  // takes more than twice as long as the copy.
  void take_memory(const ParameterView& network, const std::vector<std::string>& slots);
  // Copies the weights and statistics from host or device memory. Every call must get a view of the same network.
  Result<> copy_weights(const ParameterView& from);

  SteadyTime began;              // when the save began
  kvstore::TrainingState state;  // used only with a checkpoint, as are the members below except is_best
  CheckpointHeader header;
  std::optional<CheckpointName> checkpoint;  // nullopt: no checkpoint is written, only PREFIX-best
  bool with_states = true;
  std::vector<CheckpointName> outdated;  // checkpoints that are removed once this one is complete
  bool is_best = false;                  // whether to write PREFIX-best

  [[nodiscard]] const ParameterView& view() const { return view_; }

 private:
  void take_weights(const ParameterView& network);

  ParameterView view_;  // in values_
  std::vector<float> values_;
};

struct CheckpointWriterOptions {
  std::string prefix;  // of the checkpoints
  std::string symbol;  // content of PREFIX-symbol.json
  Waits& waits;
  Log log;
  AtomicFile::Fault fault = nullptr;  // for tests; see AtomicFile
  CheckpointClaim* claim = nullptr;   // files are put in place under it; null: nobody else writes them
};

// One thread calls it. The first error of a write is kept, and all later calls return it.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(CheckpointWriterOptions options) : options_(std::move(options)) {}
  ~CheckpointWriter();  // waits until the files are written
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Begins to take the memory for the saves, so that the first one takes no longer than the others. To be called before
  // next(), if at all. `slots`: the optimizer's.
  void prepare(const ParameterView& network, std::vector<std::string> slots) DT_EXCLUDES(mutex_);
  // Returns the memory for the next save, to be filled by the caller. Waits until the last one has been written.
  Result<Snapshot*> next() DT_EXCLUDES(mutex_);
  // Begins to write what next() returned: first PREFIX-best, then the checkpoint; then removes outdated checkpoints.
  void write() DT_EXCLUDES(mutex_);
  // Waits until the files are written.
  Result<> finish() DT_EXCLUDES(mutex_);
  // Returns the error of a write that has failed, and does not wait for one that is in progress.
  Result<> check() const DT_EXCLUDES(mutex_);
  // The longest time from the beginning of a save until its files were written; 0 if none has been written.
  [[nodiscard]] double longest_s() const DT_EXCLUDES(mutex_);

 private:
  void begin(std::function<Result<>()> work) DT_EXCLUDES(mutex_);
  void serve() DT_EXCLUDES(mutex_);
  Result<> write_files();

  const CheckpointWriterOptions options_;
  Snapshot snapshot_;  // belongs to the thread while it has work, and otherwise to the caller
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::function<Result<>()> work_ DT_GUARDED_BY(mutex_);  // null: the thread has nothing to do
  bool ends_ DT_GUARDED_BY(mutex_) = false;
  Result<> result_ DT_GUARDED_BY(mutex_);
  double longest_s_ DT_GUARDED_BY(mutex_) = 0;
  std::thread thread_;  // exists once there has been work
};

}  // namespace dtrain::train
