// What waits on a stream for a peer that may not read it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/mutex.h"

namespace dtrain::rpc {

// Counts the bytes that wait, and says when reading from the peer pauses and when it goes on. Thread-safe.
class Backlog {
 public:
  using Clock = std::chrono::steady_clock;

  // Reading pauses while more than `bytes_max` wait.
  explicit Backlog(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  void add(uint64_t bytes) {
    const MutexLock lock(mutex_);
    bytes_ += bytes;
  }
  // After a message has been read. True: do not read the next one yet; a call of take() will say when.
  [[nodiscard]] bool pauses_reading() {
    const MutexLock lock(mutex_);
    if (bytes_ <= bytes_max_) return false;
    paused_since_ = Clock::now();
    return true;
  }
  // The network has taken a message. True: reading must go on.
  [[nodiscard]] bool take(uint64_t bytes) {
    const MutexLock lock(mutex_);
    bytes_ -= bytes;
    if (!paused_since_) return false;
    paused_since_ = Clock::now();  // the peer reads, if slowly
    if (bytes_ > bytes_max_) return false;
    paused_since_.reset();
    return true;
  }
  // The bytes that wait if reading has paused since `since` or longer and the network has taken nothing meanwhile.
  [[nodiscard]] std::optional<uint64_t> stuck_since(Clock::time_point since) const {
    const MutexLock lock(mutex_);
    if (!paused_since_ || *paused_since_ > since) return std::nullopt;
    return bytes_;
  }

 private:
  const uint64_t bytes_max_;
  mutable Mutex mutex_;
  uint64_t bytes_ DT_GUARDED_BY(mutex_) = 0;
  std::optional<Clock::time_point> paused_since_ DT_GUARDED_BY(mutex_);  // or since when nothing was taken
};

}  // namespace dtrain::rpc
