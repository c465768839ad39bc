// An executor and a store that compute nothing, for tests of the code between them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "exec/executor.h"
#include "kvstore/store.h"
#include "train/step.h"

namespace dtrain::train::test {

// Arrays that nobody copies.
class FakeArrays final : public DeviceArrays {
 public:
  Result<> read(std::span<const float>, std::span<float>) override { return {}; }
  Result<> write(std::span<const float>, std::span<float>) override { return {}; }
};

// An executor with two parameters in two buckets; the test sets their gradients, or what the device has decided.
class FakeExecutor final : public exec::Executor {
 public:
  FakeExecutor() {
    view_.parameters = {{"fc1_weight", ParameterKind::kWeight, {2}, w1_, g1_},
                        {"fc2_weight", ParameterKind::kWeight, {2}, w2_, g2_}};
  }
  Result<> forward(const exec::Batch&, const exec::WeightsWait& wait) override {
    DT_TRY_VOID(wait(0));
    return wait(1);
  }
  Result<> backward(const exec::GradientReady& ready) override {
    DT_TRY_VOID(ready(1));
    return ready(0);
  }
  const ParameterView& parameters() override { return view_; }
  size_t heads() const override { return 1; }
  std::span<const float> result(size_t) override { return probabilities_; }
  std::vector<float> node_output(graph::NodeId) override { return {}; }
  std::vector<float> node_gradient(graph::NodeId) override { return {}; }
  size_t memory_bytes() const override { return 0; }
  void set_loss_scale(const optim::LossScaleState& state) override { loss_scale_ = state; }
  optim::LossScaleState loss_scale() override { return decided_scale_; }
  bool skipped_update() override { return skips_; }
  std::optional<size_t> bad_gradient() override { return bad_gradient_; }
  const ParameterView& device_parameters() override { return view_; }
  void put_on_device() { view_.device = &arrays_; }

  optim::LossScaleState loss_scale_ = {1, 0}, decided_scale_ = {};
  bool skips_ = false;
  std::optional<size_t> bad_gradient_;
  std::vector<float> w1_ = {0, 0}, w2_ = {0, 0}, g1_ = {1, 2}, g2_ = {3, 4};
  std::vector<float> probabilities_ = {0.5F, 0.5F};

 private:
  ParameterView view_;
  FakeArrays arrays_;
};

// A whole step, before the next one begins.
inline Result<bool> run_step(StepRunner& runner, const data::LoadedBatch& batch, uint64_t step,
                             const data::LoadedBatch* next = nullptr) {
  DT_TRY_VOID(runner.launch(batch, step));
  if (next != nullptr) DT_TRY_VOID(runner.announce(*next));
  return runner.finish();
}

// A store that accepts everything and does nothing.
class SilentStore : public kvstore::Store {
 public:
  Result<> initialize(std::span<const ParameterView>, const kvstore::TrainingState&) override { return {}; }
  Result<> gradient_ready(kvstore::DeviceBucket, uint64_t, uint32_t) override { return {}; }
  Result<> wait_for_weights(kvstore::DeviceBucket) override { return {}; }
  Result<uint64_t> next_step() override { return 0; }
  Result<uint64_t> samples_applied() override { return 0; }
  Result<> share_statistics(uint64_t) override { return {}; }
  Result<> refresh() override { return {}; }
  Result<> set_rate(const kvstore::RateChange&, bool) override { return {}; }
  Result<> read_state(kvstore::TrainingState&) override { return {}; }
  void cancel(Error) override {}
  [[nodiscard]] kvstore::StoreTimes times() const override { return {}; }
};

}  // namespace dtrain::train::test
