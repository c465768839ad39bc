// One lane of a worker: its messages over the successive streams that carry the lane.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "kvstore/wire/transport.h"

namespace dtrain::rpc {

// A worker that has given up a stream opens another one and repeats all unanswered requests. Messages of the old stream
// may still be on their way to the receiver. They are dropped: if such a message were handled after its repetition, the
// answer would be sent on the old stream, where the worker no longer reads it. Thread-safe.
class ServerLane {
 public:
  explicit ServerLane(kvstore::ServerEvents& receiver) : receiver_(&receiver) {}

  // Returns the number of a new stream. From now on, messages of older streams are dropped, except one that is being
  // received.
  uint64_t open() { return ++newest_; }

  // Passes a message of a stream to the receiver, one at a time. Returns false if the message was dropped.
  bool receive(uint64_t stream, const std::shared_ptr<kvstore::Pipe>& pipe, const kvstore::Head& head,
               kvstore::Pieces payload) {
    const MutexLock lock(mutex_);
    if (stream != newest_) return false;
    receiver_->on_message(pipe, head, payload);
    return true;
  }

 private:
  std::atomic<uint64_t> newest_ = 0;
  Mutex mutex_;  // held while a message is received
  kvstore::ServerEvents* const receiver_ DT_GUARDED_BY(mutex_);
};

}  // namespace dtrain::rpc
