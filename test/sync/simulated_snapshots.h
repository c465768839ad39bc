// The snapshots of a simulated server: which are complete, written, kept and waited for, as in
// kvstore/server/snapshot_ledger.h. The files are on a disk that the next process of the same rank reads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace dtrain::sync {

// An array of weights, or a part of one.
struct SimulatedWeights {
  uint64_t version = 0;  // updates
  uint64_t value = 0;    // a hash of all that has made it
  bool operator==(const SimulatedWeights&) const = default;
};

class SimulatedSnapshots {
 public:
  using Content = std::map<uint32_t, SimulatedWeights>;  // by slice
  using Disk = std::map<uint64_t, Content>;              // by version
  static constexpr uint64_t kNoLimit = ~uint64_t{0};
  static constexpr size_t kKept = 3;

  // `disk` must outlive the object.
  SimulatedSnapshots(uint64_t every, size_t slices, Disk& disk) : every_(every), slices_(slices), disk_(&disk) {
    for (const auto& [version, content] : disk) durable_.insert(version);
  }

  // A slice has this version now.
  void take(uint32_t slice, const SimulatedWeights& weights) {
    if (weights.version % every_ != 0) return;
    in_memory_[weights.version][slice] = weights;
    if (in_memory_[weights.version].size() < slices_) return;
    std::erase_if(in_memory_,
                  [&](const auto& other) { return other.first < weights.version && other.second.size() < slices_; });
  }
  // The version of the snapshot that is being written from now on; nullopt: there is none to write.
  std::optional<uint64_t> begin_write() {
    const auto complete = first_complete();
    if (writing_ || complete == in_memory_.end()) return std::nullopt;
    writing_ = *complete;
    is_abandoned_ = false;
    in_memory_.erase(writing_->first);
    return writing_->first;
  }
  void end_write(bool is_written) {
    const auto [version, content] = *std::exchange(writing_, std::nullopt);
    if (!is_written || is_abandoned_) return;
    (*disk_)[version] = content;
    durable_.insert(version);
    while (durable_.size() > kKept) {
      disk_->erase(*durable_.begin());
      durable_.erase(durable_.begin());
    }
  }
  // Weights of this version and of later ones wait.
  [[nodiscard]] uint64_t limit() const {
    std::optional<uint64_t> oldest;
    if (writing_ && !is_abandoned_) oldest = writing_->first;
    const auto complete = first_complete();
    if (complete != in_memory_.end()) oldest = std::min(oldest.value_or(complete->first), complete->first);
    return oldest ? *oldest + every_ : kNoLimit;
  }

  // The content of this snapshot; null if there is none.
  [[nodiscard]] const Content* at(uint64_t version) const {
    return durable_.contains(version) && disk_->contains(version) ? &disk_->at(version) : nullptr;
  }
  // All slices go back to this version. The files of later ones are there until delete_later().
  void go_back(uint64_t version) {
    in_memory_.clear();
    if (writing_ && writing_->first > version) is_abandoned_ = true;
    durable_.erase(durable_.upper_bound(version), durable_.end());
  }
  void delete_later(uint64_t version) {
    std::erase_if(*disk_, [&](const auto& file) { return file.first > version && !durable_.contains(file.first); });
  }
  [[nodiscard]] std::vector<uint64_t> durable() const { return {durable_.begin(), durable_.end()}; }

 private:
  using Memory = std::map<uint64_t, Content>;
  [[nodiscard]] Memory::const_iterator first_complete() const {
    return std::ranges::find_if(in_memory_, [&](const auto& one) { return one.second.size() == slices_; });
  }

  uint64_t every_;
  size_t slices_;
  Disk* disk_;
  Memory in_memory_;
  std::optional<std::pair<uint64_t, Content>> writing_;
  bool is_abandoned_ = false;
  std::set<uint64_t> durable_;
};

}  // namespace dtrain::sync
