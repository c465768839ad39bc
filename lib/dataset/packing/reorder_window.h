// Distributes the items of a sequence to threads, and returns the results in the order of the sequence.
//
// If a thread is slow with one item, the other threads continue until the window is full: until `items_max` items after
// the slow one have been taken, or `bytes_max` bytes of finished results wait for it.
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

  // For the threads that compute the results. take() returns the next item, and waits while the window is full;
  // nullopt: there are no further items, or stop() was called. put() must be called once for each item taken; the order
  // does not matter.
  std::optional<size_t> take() DT_EXCLUDES(mutex_);
  void put(size_t item, Result<Bytes> result) DT_EXCLUDES(mutex_);

  // For the thread that uses the results: returns the result of the next item in order; nullopt if it was not ready
  // within `limit`.
  std::optional<Result<Bytes>> next(std::chrono::milliseconds limit) DT_EXCLUDES(mutex_);

  // Recycling of memory: reuse() gives back the memory of a result that is no longer needed, and spare() returns such
  // memory to a thread, which need not allocate it again.
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
  size_t next_ DT_GUARDED_BY(mutex_);   // the item that take() will return next
  size_t first_ DT_GUARDED_BY(mutex_);  // the item whose result next() will return next; results_[0] belongs to it
  size_t bytes_ DT_GUARDED_BY(mutex_) = 0;
  std::deque<std::optional<Result<Bytes>>> results_ DT_GUARDED_BY(mutex_);
  std::vector<Bytes> spare_ DT_GUARDED_BY(mutex_);
  bool stopped_ DT_GUARDED_BY(mutex_) = false;
};

}  // namespace dtrain::dataset
