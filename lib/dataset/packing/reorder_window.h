// Distributes the items of a sequence to threads, and returns their results in the order of the sequence.
//
// A thread that is slow with one item does not stop the others until the window is full, that is, until `items_max`
// items after the slow one, or `bytes_max` bytes of finished results, wait for it.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"

namespace dtrain::dataset {

class ReorderWindow {
 public:
  using Bytes = std::vector<uint8_t>;

  // The items are begin .. end-1.
  ReorderWindow(size_t begin, size_t end, size_t items_max, size_t bytes_max)
      : end_(end), items_max_(items_max), bytes_max_(bytes_max), next_(begin), first_(begin) {}

  // For the worker threads. take() waits while the window is full; nullopt: there is no further item, or stop() was
  // called. put() must be called for each item taken, in any order.
  std::optional<size_t> take() DT_EXCLUDES(mutex_);
  void put(size_t item, Result<Bytes> result) DT_EXCLUDES(mutex_);

  // For the thread that uses the results: returns the result of the next item in order. nullopt: it is not ready within
  // `limit`.
  std::optional<Result<Bytes>> next(std::chrono::milliseconds limit) DT_EXCLUDES(mutex_);

  // Recycles memory: spare() returns that of a result that has been used, so that the threads need not allocate it
  // again.
  Bytes spare() DT_EXCLUDES(mutex_);
  void reuse(Bytes memory) DT_EXCLUDES(mutex_);

  // From now on, take() returns no items.
  void stop() DT_EXCLUDES(mutex_);

 private:
  [[nodiscard]] bool has_room() const DT_REQUIRES(mutex_);

  const size_t end_, items_max_, bytes_max_;
  Mutex mutex_;
  ConditionVariable room_;
  ConditionVariable ready_;
  size_t next_ DT_GUARDED_BY(mutex_);   // the item that the next thread takes
  size_t first_ DT_GUARDED_BY(mutex_);  // the item whose result is returned next; results_[0] is its slot
  size_t bytes_ DT_GUARDED_BY(mutex_) = 0;
  std::deque<std::optional<Result<Bytes>>> results_ DT_GUARDED_BY(mutex_);
  std::vector<Bytes> spare_ DT_GUARDED_BY(mutex_);
  bool stopped_ DT_GUARDED_BY(mutex_) = false;
};

}  // namespace dtrain::dataset
