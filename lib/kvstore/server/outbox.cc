#include "kvstore/server/outbox.h"

namespace dtrain::kvstore {

void Outbox::add(std::shared_ptr<Pipe> peer, Head head, LentValues values) {
  const MutexLock lock(mutex_);
  answers_.push_back({std::move(peer), std::move(head), std::move(values)});
}

void Outbox::send_all() {
  std::vector<Answer> batch;
  const MutexLock lock(mutex_);
  if (is_sending_) return;
  is_sending_ = true;
  while (!answers_.empty()) {
    batch.swap(answers_);
    const MutexUnlock unlocked(mutex_);
    for (Answer& answer : batch) send(std::move(answer));
    batch.clear();
  }
  is_sending_ = false;
}

void Outbox::send(Answer answer) {
  const bool has_checksum = !answer.values.values.empty() && answer.peer->needs_checksums();
  const uint32_t checksum = has_checksum ? answer.values.checksum() : 0;
  answer.peer->send(
      make_message(std::move(answer.head), answer.values.values, std::move(answer.values.owner), checksum));
}

}  // namespace dtrain::kvstore
