// Holds back what the scheduler is about to tell others until the decisions that explain it are durable, so that a
// scheduler that is killed and started again never contradicts what a process has already heard. Pure: the driver
// writes the records and reports when one is durable. See docs/protocol.md, "The scheduler comes back".
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::sync {

// `Held`: what is held back, such as an effect or a call to make.
template <class Held>
class Journal {
 public:
  using Texts = std::map<std::string, std::string>;
  struct Record {
    uint64_t number = 0;  // counts the records
    Texts changes;        // the texts that are new or differ from those of the records before, by key
  };

  // `known`: the texts that are durable already.
  explicit Journal(Texts known = {}) : known_(std::move(known)) {}

  // An event has led to `held`, in this order, and `texts` are the decisions now; nullopt: they have not changed.
  // Returns the record to write before any of `held` may be done; nullopt: there is none to write.
  [[nodiscard]] std::optional<Record> add(const std::optional<Texts>& texts, std::vector<Held> held) {
    Record record{.number = written_ + 1, .changes = {}};
    for (const auto& [key, text] : texts.value_or(Texts())) {
      const auto before = known_.find(key);
      if (before != known_.end() && before->second == text) continue;
      known_[key] = text;
      record.changes.emplace(key, text);
    }
    if (!record.changes.empty()) written_++;
    for (Held& one : held) waiting_.emplace_back(written_, std::move(one));
    if (record.changes.empty()) return std::nullopt;
    return record;
  }
  // All records up to this number are durable.
  void is_durable(uint64_t number) { durable_ = std::max(durable_, number); }
  // The next thing that may be done now; nullopt: the rest waits, or there is nothing.
  [[nodiscard]] std::optional<Held> take() {
    if (waiting_.empty() || waiting_.front().first > durable_) return std::nullopt;
    Held first = std::move(waiting_.front().second);
    waiting_.pop_front();
    return first;
  }

 private:
  Texts known_;  // as of the newest record
  uint64_t written_ = 0, durable_ = 0;
  std::deque<std::pair<uint64_t, Held>> waiting_;  // each with the number of the record for which it waits
};

}  // namespace dtrain::sync
