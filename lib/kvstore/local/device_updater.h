// The store of one process with one device, which is none (R-S3): the optimiser beside the device, on its own memory.
// The same arithmetic as a server's shard, so that a BSP job of one worker has the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread.h"
#include "kvstore/store.h"
#include "kvstore/update_rule.h"
#include "kvstore/wire.h"
#include "tensor/buffer.h"

namespace dtrain::kvstore {

struct DeviceUpdaterOptions {
  UpdateRule rule = {};
  std::vector<size_t> bucket_begin = {0};  // as the executor has them
  int threads = 1;                         // of an update; the caller's is one of them
};

class DeviceUpdater final : public Store {
 public:
  // Code::kUsage: an unknown optimiser.
  static Result<std::unique_ptr<DeviceUpdater>> create(DeviceUpdaterOptions options);

  Result<> initialize(const ParameterView& view, const TrainingState& state) override;
  // Updates the bucket before it returns.
  Result<> gradient_ready(size_t bucket, uint64_t step, uint32_t samples) override;
  Result<> weights_wait(size_t bucket) override;
  Result<> share_statistics() override { return {}; }
  Result<TrainingState> state() override;
  void cancel(Error error) override;
  [[nodiscard]] StoreTimes times() const override { return {}; }

 private:
  // A part of a parameter that one thread updates.
  struct Task {
    optim::Multipliers multipliers;
    std::span<float> weight;
    std::span<const float> gradient;
    std::vector<std::span<float>> state;  // by slot
  };

  DeviceUpdater(DeviceUpdaterOptions options, std::vector<std::string> slots);
  Result<> load_state(const TrainingState& state);
  void plan_tasks();
  void add_tasks(size_t parameter, std::vector<Task>& tasks);
  [[nodiscard]] std::optional<Error> error() const;

  const DeviceUpdaterOptions options_;
  const std::vector<std::string> slots_;
  ThreadPool pool_;
  ParameterView view_;
  std::vector<std::vector<Buffer<float>>> state_;  // by parameter, by slot
  std::vector<std::vector<Task>> tasks_;           // by bucket
  std::vector<Counters> counters_;                 // by bucket

  mutable std::mutex mutex_;
  std::optional<Error> error_;
};

}  // namespace dtrain::kvstore
