// The messages that wait for one stream. gRPC takes one write at a time, from whatever thread; it may call back before
// the call that starts a write has returned, so nothing of gRPC is called under the lock: the queue says what to do.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "base/mutex.h"

namespace dtrain::rpc {

template <class T>
class WriteQueue {
 public:
  // What the caller must do now. kRelease comes once: no write is on its way and none will be.
  enum class Next { kNothing, kWrite, kRelease };

  // A message for a closed queue vanishes.
  Next push(T message) {
    const MutexLock lock(mutex_);
    if (closed_) return Next::kNothing;
    queue_.push_back(std::move(message));
    if (writing_) return Next::kNothing;
    writing_ = true;
    return Next::kWrite;
  }
  // What to write; stays where it is until written().
  const T& front() {
    const MutexLock lock(mutex_);
    return queue_.front();
  }
  // More wait behind the front: the transport may gather them.
  bool more() {
    const MutexLock lock(mutex_);
    return queue_.size() > 1;
  }
  // The write of front() has ended.
  Next written() {
    std::deque<T> vanishing;
    const MutexLock lock(mutex_);
    if (closed_) vanishing.swap(queue_);
    if (!queue_.empty()) queue_.pop_front();
    writing_ = !queue_.empty();
    if (writing_) return Next::kWrite;
    return closed_ ? Next::kRelease : Next::kNothing;
  }
  // What waits vanishes, but for a write on its way.
  Next close() {
    const MutexLock lock(mutex_);
    if (closed_) return Next::kNothing;
    closed_ = true;
    if (writing_) return Next::kNothing;
    queue_.clear();
    return Next::kRelease;
  }

 private:
  Mutex mutex_;
  std::deque<T> queue_ DT_GUARDED_BY(mutex_);
  bool writing_ DT_GUARDED_BY(mutex_) = false;
  bool closed_ DT_GUARDED_BY(mutex_) = false;
};

}  // namespace dtrain::rpc
