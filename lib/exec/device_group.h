// The devices of one worker as a unit: each device has an executor and a share of every batch, and they compute
// concurrently. Combining their gradients and weights is the job of a store (kvstore).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/thread.h"
#include "exec/executor.h"
#include "tensor/buffer.h"

namespace dtrain::exec {

// The number of images for each device: the batch divided in proportion to the weights, rounded half away from zero.
// The last device gets the rest. Code::kUsage if a device would get no image.
Result<std::vector<int64_t>> split_batch(int64_t batch, std::span<const double> weights);

// Not thread-safe. It allocates no memory after construction.
class DeviceGroup {
 public:
  // Like WeightsWait and GradientReady, but with the device as a further argument, and called on that device's own
  // thread. With several devices, the callee must ensure that an Error on one device does not leave the others waiting.
  using DeviceCall = std::function<Result<>(size_t device, size_t bucket)>;

  // Takes at least one executor. All must be of one network and purpose, compiled for these batch sizes.
  DeviceGroup(std::vector<std::unique_ptr<Executor>> executors, std::vector<int64_t> batch_sizes);
  DeviceGroup(std::unique_ptr<Executor> executor, int64_t batch_size);
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  // Records the passes of each device from now on; null ends the recording.
  void record_on(telemetry::Timeline* timeline) { timeline_ = timeline; }
  [[nodiscard]] size_t size() const { return executors_.size(); }
  Executor& executor(size_t device) { return *executors_[device]; }
  const ParameterView& parameters(size_t device = 0) { return executors_[device]->parameters(); }
  const ParameterView& device_parameters(size_t device = 0) { return executors_[device]->device_parameters(); }
  // Whether the learned tensors are in memory that the host cannot access (Options::parameters_on_device).
  [[nodiscard]] bool parameters_on_device() { return device_parameters().device != nullptr; }

  // Like the functions of Executor, for the whole batch. If several devices fail, the Error of the first one is
  // returned.
  Result<> forward(const Batch& batch, const DeviceCall& wait);
  Result<> backward(const DeviceCall& ready);
  Result<> finish();
  // Runs work(device) for all devices concurrently, each on its own thread. If several fail, the Error of the first one
  // is returned.
  Result<> on_devices(const std::function<Result<>(size_t device)>& work);
  // Like the functions of Executor with these names, for all devices, which have the same loss scale. skipped_update()
  // returns true if any device has skipped the update, and bad_gradient() the last parameter of all devices.
  void set_loss_scale(const optim::LossScaleState& state);
  void skip_bad_steps(bool dynamic_scale);
  // keep_statistics() returns whether all devices keep the statistics.
  bool keep_statistics();
  void undo_statistics();
  [[nodiscard]] optim::LossScaleState loss_scale() { return executors_.front()->loss_scale(); }
  bool skipped_update();
  std::optional<size_t> bad_gradient();
  // Announces the whole batch, like Executor::announce; {} announces none.
  Result<> announce(const Batch& batch);
  // The result of the whole batch, in its order, like Executor::result. Must not be called while a pass is running.
  std::span<const float> result(size_t head);
  [[nodiscard]] size_t heads() { return executors_.front()->heads(); }

 private:
  struct Share {
    int64_t begin = 0, count = 0;  // the device's images, as a range of the batch
    WeightsWait wait = {};         // callbacks for the executor, which add the device to the arguments
    GradientReady ready = {};
    Result<> outcome = {};
  };
  Result<> on_each(const std::function<void(int64_t)>& work);
  void forward_on(size_t device);
  void backward_on(size_t device);
  void finish_on(size_t device);
  void announce_on(size_t device);
  void forget_results();

  std::vector<std::unique_ptr<Executor>> executors_;
  std::vector<Share> shares_;
  std::function<void(int64_t)> forward_, backward_, finish_, announce_;
  ThreadPool pool_;
  // The state of the call that is in progress:
  Batch batch_;
  int64_t batch_size_ = 0;
  const DeviceCall* call_ = nullptr;
  struct Gathered {
    Buffer<float> values;
    bool is_gathered = false;
  };
  telemetry::Timeline* timeline_ = nullptr;
  // The results of the whole batch, indexed by head; gathered on demand, and only with several devices.
  std::vector<Gathered> results_;
};

inline Result<> no_device_wait(size_t, size_t) {
  return {};
}

}  // namespace dtrain::exec
