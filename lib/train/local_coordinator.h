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
  Result<bool> may_begin(uint64_t) override { return !stop_.load(std::memory_order_relaxed); }
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
};

}  // namespace dtrain::train
