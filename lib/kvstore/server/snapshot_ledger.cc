#include "kvstore/server/snapshot_ledger.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace dtrain::kvstore {

size_t snapshots_kept(const sync::Policy& policy, uint64_t every) {
  constexpr size_t kInBsp = 3;
  const bool has_one_group = sync::group_count(policy) == 1 && !policy.snapshots;
  return has_one_group ? kInBsp : kInBsp + (policy.group_of.size() + every - 1) / every;
}

SnapshotLedger::SnapshotLedger(uint64_t every, size_t slices, size_t kept, std::vector<uint64_t> durable)
    : every_(every), slices_(slices), kept_(kept), durable_(std::move(durable)) {
  DT_CHECK(every > 0 && slices > 0, "snapshots of {} slices every {} updates", slices, every);
}

void SnapshotLedger::take(SnapshotPart part) {
  const uint64_t number = part.counters.updates / every_;
  Parts& parts = in_memory_[number];
  parts.insert_or_assign(part.id, std::move(part));
  // A slice takes its parts in order, so an older snapshot whose parts are still missing will never be complete.
  if (parts.size() == slices_) {
    std::erase_if(in_memory_, [&](const auto& other) { return other.first < number && other.second.size() < slices_; });
  }
}

std::map<uint64_t, SnapshotLedger::Parts>::const_iterator SnapshotLedger::first_complete() const {
  return std::ranges::find_if(in_memory_, [&](const auto& snapshot) { return snapshot.second.size() == slices_; });
}

bool SnapshotLedger::has_complete() const {
  return !writing_ && first_complete() != in_memory_.end();
}

std::optional<SnapshotLedger::Complete> SnapshotLedger::begin_write() {
  if (!has_complete()) return std::nullopt;
  auto taken = in_memory_.extract(first_complete());
  Complete complete{.number = taken.key(), .parts = {}};
  for (auto& [id, part] : taken.mapped()) complete.parts.push_back(std::move(part));
  writing_ = complete.number;
  is_abandoned_ = false;
  return complete;
}

bool SnapshotLedger::end_write(bool is_written) {
  const uint64_t number = *writing_;
  const bool is_durable = is_written && !is_abandoned_;
  writing_.reset();
  if (is_written && !is_durable) outdated_.push_back(number);
  if (!is_durable) return false;
  const auto place = std::ranges::lower_bound(durable_, number);
  if (place == durable_.end() || *place != number) durable_.insert(place, number);
  const size_t surplus = durable_.size() - std::min(durable_.size(), kept_);
  outdated_.insert(outdated_.end(), durable_.begin(), durable_.begin() + static_cast<ptrdiff_t>(surplus));
  durable_.erase(durable_.begin(), durable_.begin() + static_cast<ptrdiff_t>(surplus));
  return true;
}

void SnapshotLedger::drop_files(uint64_t first) {
  if (writing_ && *writing_ >= first) is_abandoned_ = true;
  const auto from = std::ranges::lower_bound(durable_, first);
  outdated_.insert(outdated_.end(), from, durable_.end());
  durable_.erase(from, durable_.end());
}

void SnapshotLedger::go_back(uint64_t number) {
  in_memory_.clear();
  drop_files(number + 1);
}

void SnapshotLedger::begin_at(uint64_t version) {
  drop_files((version + every_ - 1) / every_);
  // The parts of this very version are those of slices that got their values a moment ago.
  in_memory_.erase(in_memory_.upper_bound(version / every_), in_memory_.end());
}

uint64_t SnapshotLedger::limit() const {
  std::optional<uint64_t> oldest;
  if (writing_ && !is_abandoned_) oldest = *writing_;
  const auto complete = first_complete();
  if (complete != in_memory_.end()) oldest = std::min(oldest.value_or(complete->first), complete->first);
  return oldest ? (*oldest + 1) * every_ : kNoLimit;
}

std::vector<uint64_t> SnapshotLedger::take_outdated() {
  return std::exchange(outdated_, {});
}

}  // namespace dtrain::kvstore
