// Counts the bytes that wait on a stream because its peer does not read, and limits them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/mutex.h"

namespace dtrain::rpc {

// Counts the bytes that wait to be sent to a peer, and reports when to stop reading from that peer and when to
// continue. Thread-safe.
class Backlog {
 public:
  using Clock = std::chrono::steady_clock;

  // Reading pauses while more than `bytes_max` bytes wait.
  explicit Backlog(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  void add(uint64_t bytes) {
    const MutexLock lock(mutex_);
    bytes_ += bytes;
  }
  // To be called after a message has been read. True: do not read the next one yet; take() will report when to
  // continue.
  [[nodiscard]] bool pauses_reading() {
    const MutexLock lock(mutex_);
    if (bytes_ <= bytes_max_) return false;
    paused_since_ = Clock::now();
    return true;
  }
  // To be called when the network has taken a message. True: reading was paused and must continue now.
  [[nodiscard]] bool take(uint64_t bytes) {
    const MutexLock lock(mutex_);
    bytes_ -= bytes;
    if (!paused_since_) return false;
    paused_since_ = Clock::now();  // a sign that the peer still reads, even if slowly
    if (bytes_ > bytes_max_) return false;
    paused_since_.reset();
    return true;
  }
  // Returns the number of waiting bytes if reading paused at `since` or before and the network has taken nothing since
  // then. Otherwise nullopt.
  [[nodiscard]] std::optional<uint64_t> stuck_since(Clock::time_point since) const {
    const MutexLock lock(mutex_);
    if (!paused_since_ || *paused_since_ > since) return std::nullopt;
    return bytes_;
  }

 private:
  const uint64_t bytes_max_;
  mutable Mutex mutex_;
  uint64_t bytes_ DT_GUARDED_BY(mutex_) = 0;
  // The time at which reading paused or, if the network has taken a message since then, the time at which it took the
  // last one. nullopt: reading is not paused.
  std::optional<Clock::time_point> paused_since_ DT_GUARDED_BY(mutex_);
};

}  // namespace dtrain::rpc
