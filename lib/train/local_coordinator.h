// The coordinator of a process that trains alone.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "job/process/coordinator.h"

namespace dtrain::train {

class LocalCoordinator : public job::Coordinator {
 public:
  // `stop` is set when a signal asks the process to stop; it must outlive the coordinator. `on_report` is called with
  // every progress report, for the live status line; it may be empty.
  explicit LocalCoordinator(const std::atomic<bool>& stop,
                            std::function<void(const job::WorkerProgress&)> on_report = nullptr)
      : stop_(stop), on_report_(std::move(on_report)) {}

  [[nodiscard]] uint32_t rank() const override { return 0; }
  [[nodiscard]] uint32_t workers() const override { return 1; }
  Result<bool> may_begin(uint64_t) override {
    if (stop_.load(std::memory_order_relaxed)) return false;
    if (wants_border_ && border_ == 0) border_ = ++borders_;
    return border_ == 0;
  }
  void request_border() override { wants_border_ = true; }
  [[nodiscard]] uint64_t border() const override { return border_; }
  void pass_border(uint64_t) override {
    wants_border_ = false;
    border_ = 0;
  }
  Result<std::vector<double>> sum(const std::string&, std::span<const double> values) override {
    return std::vector<double>(values.begin(), values.end());
  }
  void report(const job::WorkerProgress& progress) override {
    if (on_report_) on_report_(progress);
  }

 private:
  Result<std::vector<job::Contribution>> gather(const std::string&, job::Contribution own,
                                                std::span<const uint32_t>) override {
    return std::vector<job::Contribution>{std::move(own)};
  }

  const std::atomic<bool>& stop_;
  std::function<void(const job::WorkerProgress&)> on_report_;
  bool wants_border_ = false;
  uint64_t border_ = 0, borders_ = 0;
};

}  // namespace dtrain::train
