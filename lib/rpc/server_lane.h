// One lane of a worker: its messages over all the streams that carry the lane one after the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "kvstore/wire/transport.h"

namespace dtrain::rpc {

// A worker that has given up a stream opens another one and repeats all requests that have no answer. Messages of the
// old stream may still be on their way to the receiver. They are dropped, because if one came after its repetition, its
// answer would be sent on the old stream. Thread-safe.
class ServerLane {
 public:
  explicit ServerLane(kvstore::ServerEvents& receiver) : receiver_(&receiver) {}

  // Returns the number of a new stream. Of the older ones, only a message that is being received is not dropped.
  uint64_t open() { return ++newest_; }

  // Hands a message of a stream to the receiver, which gets one at a time. Returns false if the message was dropped.
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
