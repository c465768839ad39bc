// The answers of one slice that have been decided but not sent. They are sent without the slice's lock, because sending
// a message may take as long as adding a gradient, which needs the lock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "kvstore/server/versioned_array.h"
#include "kvstore/wire/transport.h"

namespace dtrain::telemetry {
class Timeline;
}  // namespace dtrain::telemetry

namespace dtrain::kvstore {

// Thread-safe.
class Outbox {
 public:
  // Where and for which worker the sending of an answer is recorded. Without a timeline it is not recorded.
  struct Record {
    telemetry::Timeline* timeline = nullptr;
    uint32_t worker = 0;
    uint64_t request = 0;
    uint64_t version = 0;  // version of the weights in the answer; 0: it may be sent at any time
    std::chrono::steady_clock::time_point since = {};  // when the worker began to wait
  };
  // An answer whose version is *limit or later waits until the limit has risen, and so do all answers behind it. Null:
  // no answer waits. The limit must outlive the object.
  explicit Outbox(const std::atomic<uint64_t>* limit = nullptr) : limit_(limit) {}
  // `values` may be empty. The order of messages is the order of these calls; to fix it, call add() under a lock.
  void add(std::shared_ptr<Pipe> peer, Head head, LentValues values = {}) DT_EXCLUDES(mutex_) {
    add(std::move(peer), std::move(head), std::move(values), Record());
  }
  void add(std::shared_ptr<Pipe> peer, Head head, LentValues values, const Record& record) DT_EXCLUDES(mutex_);
  // Sends all added messages that need not wait, in the order in which they were added. If another thread is already
  // doing this, returns at once, and that thread sends everything. After an exception nothing is sent anymore. To be
  // called again when the limit has risen.
  void send_all() DT_EXCLUDES(mutex_);
  [[nodiscard]] bool empty() const DT_EXCLUDES(mutex_);
  // Discards all messages that have not been sent.
  void discard() DT_EXCLUDES(mutex_);
  // The answers with weights that wait for the limit.
  [[nodiscard]] std::vector<Record> waiting() const DT_EXCLUDES(mutex_);

 private:
  struct Answer {
    std::shared_ptr<Pipe> peer;
    Head head;
    LentValues values;
    Record record;
  };
  // Moves the answers that may be sent to `batch`, which is empty. Returns false if there are none.
  [[nodiscard]] bool take_batch(std::vector<Answer>& batch) DT_REQUIRES(mutex_);
  static void send(Answer answer);

  const std::atomic<uint64_t>* const limit_;
  mutable Mutex mutex_;
  std::vector<Answer> answers_ DT_GUARDED_BY(mutex_);
  bool is_sending_ DT_GUARDED_BY(mutex_) = false;
};

}  // namespace dtrain::kvstore
