// The messages that wait to be sent on one stream. gRPC allows one write at a time, from any thread, and may call back
// before the function that starts a write has returned. Therefore gRPC must not be called under the lock; instead, the
// queue returns what its caller has to do.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "base/mutex.h"

namespace dtrain::rpc {

template <class T>
class WriteQueue {
 public:
  // What the caller must do now. kRelease is returned once, when no write is in progress and none will follow.
  enum class Next { kNothing, kWrite, kRelease };

  // Appends a message. A closed queue drops it.
  Next push(T message) {
    const MutexLock lock(mutex_);
    if (closed_) return Next::kNothing;
    queue_.push_back(std::move(message));
    if (writing_) return Next::kNothing;
    writing_ = true;
    return Next::kWrite;
  }
  // The message to write. The reference is valid until written().
  const T& front() {
    const MutexLock lock(mutex_);
    return queue_.front();
  }
  // Whether more messages wait behind the front, so that the transport may combine them.
  bool more() {
    const MutexLock lock(mutex_);
    return queue_.size() > 1;
  }
  // To be called when the write of front() has ended.
  Next written() {
    std::deque<T> vanishing;
    const MutexLock lock(mutex_);
    if (closed_) vanishing.swap(queue_);
    if (!queue_.empty()) queue_.pop_front();
    writing_ = !queue_.empty();
    if (writing_) return Next::kWrite;
    return closed_ ? Next::kRelease : Next::kNothing;
  }
  // Drops all waiting messages, except one that is being written.
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
