#include "kvstore/server/outbox.h"

#include "telemetry/timeline.h"

namespace dtrain::kvstore {

void Outbox::add(std::shared_ptr<Pipe> peer, Head head, LentValues values, const Record& record) {
  const MutexLock lock(mutex_);
  answers_.push_back({std::move(peer), std::move(head), std::move(values), record});
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
  telemetry::Span span(answer.record.timeline, "answer", "wire");
  span.with("worker", answer.record.worker).with("bytes", answer.values.values.size_bytes());
  span.arrow(telemetry::ArrowPoint::kPass, telemetry::arrow_of_request(answer.record.worker, answer.record.request));
  const bool has_checksum = !answer.values.values.empty() && answer.peer->needs_checksums();
  const uint32_t checksum = has_checksum ? answer.values.checksum() : 0;
  answer.peer->send(
      make_message(std::move(answer.head), answer.values.values, std::move(answer.values.owner), checksum));
}

}  // namespace dtrain::kvstore
