#include "kvstore/server/outbox.h"

#include <algorithm>
#include <iterator>

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
  while (take_batch(batch)) {
    const MutexUnlock unlocked(mutex_);
    for (Answer& answer : batch) send(std::move(answer));
    batch.clear();
  }
  is_sending_ = false;
}

bool Outbox::take_batch(std::vector<Answer>& batch) {
  const uint64_t limit = limit_ == nullptr ? UINT64_MAX : limit_->load();
  const auto end = std::ranges::find_if(answers_, [&](const Answer& a) { return a.record.version >= limit; });
  if (end == answers_.end()) {
    batch.swap(answers_);
  } else {
    std::move(answers_.begin(), end, std::back_inserter(batch));
    answers_.erase(answers_.begin(), end);
  }
  return !batch.empty();
}

bool Outbox::empty() const {
  const MutexLock lock(mutex_);
  return answers_.empty();
}

void Outbox::discard() {
  const MutexLock lock(mutex_);
  answers_.clear();
}

std::vector<Outbox::Record> Outbox::waiting() const {
  std::vector<Record> waiting;
  const MutexLock lock(mutex_);
  const uint64_t limit = limit_ == nullptr ? UINT64_MAX : limit_->load();
  const auto first = std::ranges::find_if(answers_, [&](const Answer& a) { return a.record.version >= limit; });
  for (auto answer = first; answer != answers_.end(); ++answer) {
    if (!answer->values.values.empty() && answer->record.version > 0) waiting.push_back(answer->record);
  }
  return waiting;
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
