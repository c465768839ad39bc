// Waits for the users of an object that is about to be destroyed.
#pragma once

#include "base/mutex.h"

namespace dtrain::rpc {

// Counts the calls that gRPC still holds, so that the destructor of their owner can wait for the last one.
class Tracker {
 public:
  class Token {
   public:
    explicit Token(Tracker& tracker) : tracker_(tracker) {
      const MutexLock lock(tracker_.mutex_);
      tracker_.alive_++;
    }
    ~Token() {
      const MutexLock lock(tracker_.mutex_);
      if (--tracker_.alive_ == 0) tracker_.idle_.notify_all();
    }
    Token(const Token&) = delete;
    Token& operator=(const Token&) = delete;

   private:
    Tracker& tracker_;
  };

  // Returns when no token is left. That happens eventually, because gRPC finishes every cancelled call, and every call
  // of a server that shuts down.
  void wait_idle() {
    const MutexLock lock(mutex_);
    idle_.wait(mutex_, [this]() DT_REQUIRES(mutex_) { return alive_ == 0; });
  }

 private:
  Mutex mutex_;
  ConditionVariable idle_;
  int alive_ DT_GUARDED_BY(mutex_) = 0;
};

}  // namespace dtrain::rpc
