// A worker's own place in the job (sync/seat.h), for the threads of its process. It outlives the clients of the
// scheduler, of which the process has one for each seat that it gets.
#pragma once

#include <cstdint>

#include "base/mutex.h"
#include "sync/seat.h"

namespace dtrain::rpc {

class OwnSeat {
 public:
  using State = sync::seat::Worker::State;

  sync::seat::Worker::Request ask(uint64_t incarnation) {
    const MutexLock lock(mutex_);
    return seat_.ask(incarnation);
  }
  void admit(uint32_t rank, bool takes_part) {
    const MutexLock lock(mutex_);
    seat_.admit(rank, takes_part);
  }
  void refuse() {
    const MutexLock lock(mutex_);
    seat_.refuse();
  }
  void enter() {
    const MutexLock lock(mutex_);
    seat_.enter();
  }
  void give_up() {
    const MutexLock lock(mutex_);
    seat_.give_up();
  }
  void end() {
    const MutexLock lock(mutex_);
    seat_.end();
  }
  [[nodiscard]] bool loses_by(const sync::View& view) {
    const MutexLock lock(mutex_);
    return seat_.loses_by(view);
  }
  [[nodiscard]] State state() const {
    const MutexLock lock(mutex_);
    return seat_.state();
  }
  [[nodiscard]] bool is_lost() const { return state() == State::kLost; }

 private:
  mutable Mutex mutex_;
  sync::seat::Worker seat_ DT_GUARDED_BY(mutex_);
};

}  // namespace dtrain::rpc
