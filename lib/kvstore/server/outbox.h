// The answers of one slice that have been decided but not sent. They are sent without the slice's lock, because sending
// a message may take as long as adding a gradient, which needs the lock.
#pragma once

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
  };
  // `values` may be empty. The order of messages is the order of these calls; to fix it, call add() under a lock.
  void add(std::shared_ptr<Pipe> peer, Head head, LentValues values = {}) DT_EXCLUDES(mutex_) {
    add(std::move(peer), std::move(head), std::move(values), Record());
  }
  void add(std::shared_ptr<Pipe> peer, Head head, LentValues values, const Record& record) DT_EXCLUDES(mutex_);
  // Sends all added messages in the order in which they were added. If another thread is already doing this, returns at
  // once, and that thread sends everything. After an exception nothing is sent anymore.
  void send_all() DT_EXCLUDES(mutex_);

 private:
  struct Answer {
    std::shared_ptr<Pipe> peer;
    Head head;
    LentValues values;
    Record record;
  };
  static void send(Answer answer);

  Mutex mutex_;
  std::vector<Answer> answers_ DT_GUARDED_BY(mutex_);
  bool is_sending_ DT_GUARDED_BY(mutex_) = false;
};

}  // namespace dtrain::kvstore
