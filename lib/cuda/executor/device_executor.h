// An executor whose learned tensors stay in the device's memory, for stores that sum and update there.
//
// forward only stages the batch. Unless the caller asks for results before backward, both passes and the store's work
// between them are queued as one unit: a CUDA graph that is captured in the second step of each turn and replayed in
// later steps. With skip_bad_steps, this graph also decides whether the step counts, and adjusts the loss scale. The
// host waits once per step, in finish, for the results. Before that it may queue the next step, which begins on the
// device as soon as the step is over, and have the batch after that copied.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "cuda/executor/executor.h"
#include "cuda/executor/recorded_work.h"

namespace dtrain::cuda {

class DeviceExecutor final : public CudaExecutor {
 public:
  explicit DeviceExecutor(Setting setting)
      : CudaExecutor(std::move(setting)), device_owner_(static_cast<DeviceExecutor*>(owner_)) {}
  ~DeviceExecutor() override;

  Result<> forward(const exec::Batch& batch, const exec::WeightsWait& wait) override;
  Result<> backward(const exec::GradientReady& ready) override;
  Result<> finish() override;
  void skip_bad_steps(bool dynamic_scale) override;
  void announce(const exec::Batch& batch) override;
  const ParameterView& parameters() override { return host_view_; }
  const ParameterView& device_parameters() override { return view_; }
  bool skipped_update() override { return skipped_update_; }
  std::optional<size_t> bad_gradient() override;

  // In training: runs `steps` steps on the batch call by call, without CUDA graphs, and returns the calls in their
  // order with their times. Errors: see backward().
  Result<std::vector<TimedCall>> time_calls(const exec::Batch& batch, const exec::GradientReady& ready, int steps);

 private:
  // Copies arrays between the host and the device, for users of device_parameters().
  class Arrays final : public DeviceArrays {
   public:
    explicit Arrays(DeviceExecutor& executor) : executor_(executor) {}
    Result<> read(std::span<const float> on_device, std::span<float> on_host) override {
      return copy(on_device, on_host, cudaMemcpyDeviceToHost);
    }
    Result<> write(std::span<const float> on_host, std::span<float> on_device) override {
      return copy(on_host, on_device, cudaMemcpyHostToDevice);
    }

   private:
    Result<> copy(std::span<const float> from, std::span<float> to, cudaMemcpyKind kind);

    DeviceExecutor& executor_;
  };
  // How the calls of a part are queued.
  enum class Queue { kAsGraph, kPlainly, kRecorded };

  void prepare() override;
  void finish_results() override;

  // Functions that copy the batch.
  void stage(const exec::Batch& batch);
  void copy_ahead(const exec::Batch& batch);
  void take_batch();

  // Functions that queue or run a pass, or both passes as one step.
  // The turn of the step that is being queued, or will be queued next.
  [[nodiscard]] size_t turn() const { return launched_ % results_.size(); }
  void begin_pass();
  void end_pass();
  void show_pass();
  void prepare_weights();
  void queue(Part& part, Queue how);
  void queue_forward(Queue how);
  Result<> queue_backward(const exec::GradientReady& ready, Queue how);
  void count_or_skip();
  Result<> queue_step(const exec::GradientReady& ready);
  Result<> announce_all(const exec::GradientReady& ready);
  void run_staged();
  Result<> run_backward(const exec::GradientReady& ready);
  Result<> run_step(const exec::GradientReady& ready);
  void end_step();
  Result<> settle();
  Result<> queue_marked(const exec::GradientReady& ready, const std::function<void()>& mark);

  DeviceExecutor* device_owner_;  // owner_, as its actual type
  Arrays arrays_{*this};
  ParameterView view_, host_view_;
  std::array<RecordedWork, StoreStream::kTurns> steps_;  // indexed by turn, because each has its own memory for results
  uint64_t launched_ = 0, finished_ = 0;                 // numbers of steps
  bool is_staged_ = false;                               // whether a forward() has staged a batch that has not run yet
  exec::Batch announced_;                                // the batch whose copy is queued; empty: no batch is announced
  CudaEvent taken_;  // occurs when the last batch has been taken, so that its staging memory is free for the next one
  bool skips_bad_steps_ = false;  // whether skip_bad_steps() was called
  bool scale_is_dynamic_ = false;
  uint64_t skipped_ = 0;          // number of skipped steps, of those that are finished
  bool skipped_update_ = false;   // whether the step that was finished last was skipped
  DeviceMemory kept_statistics_;  // the statistics before the step, if the step may be skipped
};

}  // namespace dtrain::cuda
