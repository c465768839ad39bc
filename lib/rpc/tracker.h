// Lets an object that is about to be destroyed wait for the calls that still use it.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "base/mutex.h"

namespace dtrain::rpc {

// Counts the calls that gRPC still holds, so that the destructor of their owner can wait for the last one. gRPC
// finishes every cancelled call, and every call of a server that shuts down; a time limit covers the case that it fails
// to. The counters are shared by the tracker and its tokens, so a token may outlive both the tracker and the owner.
class Tracker {
 public:
  // Longer than gRPC ever takes to cancel a call.
  static constexpr std::chrono::seconds kLimit{60};

 private:
  class State {
   public:
    void add() DT_EXCLUDES(mutex_) {
      const MutexLock lock(mutex_);
      tokens_++;
    }
    void remove() DT_EXCLUDES(mutex_) {
      const MutexLock lock(mutex_);
      if (--tokens_ == 0) changed_.notify_all();
    }
    bool enter() DT_EXCLUDES(mutex_) {
      const MutexLock lock(mutex_);
      if (abandoned_) return false;
      reactions_++;
      return true;
    }
    void leave() DT_EXCLUDES(mutex_) {
      const MutexLock lock(mutex_);
      if (--reactions_ == 0) changed_.notify_all();
    }
    bool wait_idle(std::chrono::milliseconds limit) DT_EXCLUDES(mutex_) {
      const MutexLock lock(mutex_);
      const auto is_idle = [this]() DT_REQUIRES(mutex_) { return tokens_ == 0; };
      if (changed_.wait_for(mutex_, limit, is_idle)) return true;
      abandoned_ = true;
      changed_.wait(mutex_, [this]() DT_REQUIRES(mutex_) { return reactions_ == 0; });
      return tokens_ == 0;
    }

   private:
    Mutex mutex_;
    ConditionVariable changed_;
    int tokens_ DT_GUARDED_BY(mutex_) = 0;
    int reactions_ DT_GUARDED_BY(mutex_) = 0;  // number of reactions that are running now
    bool abandoned_ DT_GUARDED_BY(mutex_) = false;
  };

 public:
  class Token {
   public:
    explicit Token(Tracker& tracker) : state_(tracker.state_) { state_->add(); }
    ~Token() { state_->remove(); }
    Token(const Token&) = delete;
    Token& operator=(const Token&) = delete;

    // Runs a reaction that uses the owner, unless the owner has stopped waiting and may no longer exist. Returns
    // whether it ran.
    template <class Reaction>
    bool run(Reaction&& reaction) {
      if (!state_->enter()) return false;
      const Leaving leaving{*state_};
      reaction();
      return true;
    }

   private:
    struct Leaving {
      State& state;
      ~Leaving() { state.leave(); }
    };
    std::shared_ptr<State> state_;
  };

  // Waits until no token is left, and returns true. If that takes longer than `limit`, returns false: running reactions
  // have ended, and no later one will run. The owner may be destroyed in both cases.
  [[nodiscard]] bool wait_idle(std::chrono::milliseconds limit = kLimit) { return state_->wait_idle(limit); }

 private:
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace dtrain::rpc
