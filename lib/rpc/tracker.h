// Waits for the users of an object that is about to be destroyed.
#pragma once

#include <condition_variable>
#include <mutex>

namespace dtrain::rpc {

// Counts the calls that gRPC still holds, so that the destructor of their owner can wait for the last one.
class Tracker {
 public:
  class Token {
   public:
    explicit Token(Tracker& tracker) : tracker_(tracker) {
      const std::lock_guard lock(tracker_.mutex_);
      tracker_.alive_++;
    }
    ~Token() {
      const std::lock_guard lock(tracker_.mutex_);
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
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return alive_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable idle_;
  int alive_ = 0;
};

}  // namespace dtrain::rpc
