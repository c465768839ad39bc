// Coordinators for jobs whose workers are threads of a test; they take the place of the scheduler.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/process/coordinator.h"

namespace dtrain::train::test {

// The barriers of a job.
class Meetings {
 public:
  explicit Meetings(uint32_t workers) : workers_(workers), given_(workers) {}
  [[nodiscard]] uint32_t workers() const { return workers_; }

  Result<std::vector<double>> sum(const std::string& name, std::span<const double> values) {
    std::unique_lock lock(mutex_);
    if (here_ == 0) sum_.assign(values.size(), 0);
    if (values.size() != sum_.size()) return fail(Code::kInternal, "{} numbers, others {}", values.size(), sum_.size());
    for (size_t i = 0; i < values.size(); i++) sum_[i] += values[i];
    DT_TRY_VOID(meet(lock, name));
    return last_sum_;
  }
  Result<std::vector<job::Contribution>> gather(uint32_t rank, const std::string& name, job::Contribution own) {
    std::unique_lock lock(mutex_);
    given_[rank] = std::move(own);
    DT_TRY_VOID(meet(lock, name));
    return last_given_;
  }

 private:
  Result<> meet(std::unique_lock<std::mutex>& lock, const std::string& name) {
    if (here_ == 0) name_ = name;
    if (name != name_) return fail(Code::kInternal, "'{}' meets '{}'", name, name_);
    const uint64_t meeting = meetings_;
    if (++here_ == workers_) {
      here_ = 0;
      meetings_++;
      last_sum_ = sum_;
      last_given_ = given_;
      all_here_.notify_all();
    } else if (!all_here_.wait_for(lock, std::chrono::seconds(60), [&] { return meetings_ != meeting; })) {
      return fail(Code::kPeerLost, "nobody else comes to '{}'", name);
    }
    return {};
  }

  const uint32_t workers_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::string name_;
  std::vector<double> sum_, last_sum_;
  std::vector<job::Contribution> given_, last_given_;  // by rank
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
  Result<bool> may_begin(uint64_t step) override {
    if (before_step) before_step(step);
    if (stop_at_ && step >= *stop_at_) return false;
    if (meets_before_steps && step > passed_) border_ = step;
    return border_ == 0;
  }
  [[nodiscard]] uint64_t border() const override { return border_; }
  void pass_border(uint64_t number) override {
    passed_ = number;
    border_ = 0;
  }
  Result<std::vector<double>> sum(const std::string& name, std::span<const double> values) override {
    return meetings_.sum(name, values);
  }
  void report(const job::WorkerProgress&) override {}

  std::vector<uint32_t> stop_set_of;  // of the last barrier that had them
  std::function<void(uint64_t step)> before_step;
  bool meets_before_steps = false;  // whether all workers meet at a border before every step but the first

 private:
  Result<std::vector<job::Contribution>> gather(const std::string& name, job::Contribution own,
                                                std::span<const uint32_t> sets) override {
    if (!sets.empty()) stop_set_of.assign(sets.begin(), sets.end());
    return meetings_.gather(rank_, name, std::move(own));
  }

  Meetings& meetings_;
  uint32_t rank_;
  std::optional<uint64_t> stop_at_;
  uint64_t border_ = 0, passed_ = 0;
};

}  // namespace dtrain::train::test
