// The answers of one slice that have been decided but not sent. A message is sent without the slice's lock, because
// sending may take as long as the lock is needed for a gradient.
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
  // What the sending of an answer is recorded with; without a timeline nowhere.
  struct Record {
    telemetry::Timeline* timeline = nullptr;
    uint32_t worker = 0;
    uint64_t request = 0;
  };
  // `values` may be empty. Whoever adds messages under a lock fixes their order.
  void add(std::shared_ptr<Pipe> peer, Head head, LentValues values = {}) DT_EXCLUDES(mutex_) {
    add(std::move(peer), std::move(head), std::move(values), Record());
  }
  void add(std::shared_ptr<Pipe> peer, Head head, LentValues values, const Record& record) DT_EXCLUDES(mutex_);
  // Sends what has been added, in the order of adding. If another thread is doing this, returns at once: that thread
  // sends everything. After an exception nothing is sent any more.
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
