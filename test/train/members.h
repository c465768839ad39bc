// Coordinators for jobs whose workers are threads of a test; they take the place of the scheduler.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "job/process/coordinator.h"

namespace dtrain::train::test {

// Barriers that add up numbers.
class Meetings {
 public:
  explicit Meetings(uint32_t workers) : workers_(workers) {}
  [[nodiscard]] uint32_t workers() const { return workers_; }

  Result<std::vector<double>> sum(const std::string& name, std::span<const double> values) {
    std::unique_lock lock(mutex_);
    if (here_ == 0) {
      name_ = name;
      sum_.assign(values.size(), 0);
    }
    if (name != name_ || values.size() != sum_.size()) return fail(Code::kInternal, "'{}' meets '{}'", name, name_);
    for (size_t i = 0; i < values.size(); i++) sum_[i] += values[i];
    const uint64_t meeting = meetings_;
    if (++here_ == workers_) {
      here_ = 0;
      meetings_++;
      last_ = sum_;
      all_here_.notify_all();
    } else if (!all_here_.wait_for(lock, std::chrono::seconds(60), [&] { return meetings_ != meeting; })) {
      return fail(Code::kPeerLost, "nobody else comes to '{}'", name);
    }
    return last_;
  }

 private:
  const uint32_t workers_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::string name_;
  std::vector<double> sum_, last_;
  uint32_t here_ = 0;
  uint64_t meetings_ = 0;
};

class Member final : public job::Coordinator {
 public:
  // stop_at: the step before which this worker stops; other workers may have other steps.
  Member(Meetings& meetings, uint32_t rank, std::optional<uint64_t> stop_at = std::nullopt)
      : meetings_(meetings), rank_(rank), stop_at_(stop_at) {}
  [[nodiscard]] uint32_t rank() const override { return rank_; }
  [[nodiscard]] uint32_t workers() const override { return meetings_.workers(); }
  Result<bool> may_begin(uint64_t step) override { return !stop_at_ || step < *stop_at_; }
  Result<std::vector<double>> meet(const std::string& name, std::span<const double> values,
                                   std::span<const uint32_t> sets) override {
    if (!sets.empty()) stop_set_of.assign(sets.begin(), sets.end());
    return meetings_.sum(name, values);
  }
  void report(const job::WorkerProgress&) override {}

  std::vector<uint32_t> stop_set_of;  // of the last meeting that had them

 private:
  Meetings& meetings_;
  uint32_t rank_;
  std::optional<uint64_t> stop_at_;
};

}  // namespace dtrain::train::test
