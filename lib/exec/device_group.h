// The devices of one worker as one: each has an executor and its share of every batch, and they compute at the same
// time. What joins their gradients and weights is a store's business.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/thread.h"
#include "exec/executor.h"
#include "tensor/buffer.h"

namespace dtrain::exec {

// Images of each device: batch split by the weights, rounded half away from zero, the last device gets what is left
// (models.md 6.2). Code::kUsage: a device would get none.
Result<std::vector<int64_t>> split_batch(int64_t batch, std::span<const double> weights);

// One thread calls it. After making it no memory is taken.
class DeviceGroup {
 public:
  // As WeightsWait and GradientReady, called in the device's thread. With several devices an Error of one of them must
  // not keep the others waiting: whoever answers the calls sees to that.
  using DeviceCall = std::function<Result<>(size_t device, size_t bucket)>;

  // Executors of one network and purpose, compiled for these batch sizes: at least one.
  DeviceGroup(std::vector<std::unique_ptr<Executor>> executors, std::vector<int64_t> batch_sizes);
  DeviceGroup(std::unique_ptr<Executor> executor, int64_t batch_size);
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  [[nodiscard]] size_t size() const { return executors_.size(); }
  Executor& executor(size_t device) { return *executors_[device]; }
  const ParameterView& parameters(size_t device = 0) { return executors_[device]->parameters(); }
  const ParameterView& device_parameters(size_t device = 0) { return executors_[device]->device_parameters(); }
  // Whether the learned tensors are where the host cannot reach them (Options::parameters_on_device).
  [[nodiscard]] bool parameters_on_device() { return device_parameters().device != nullptr; }

  // Executor's, for the whole batch. The first device's Error counts.
  Result<> forward(const Batch& batch, const DeviceCall& wait);
  Result<> backward(const DeviceCall& ready);
  // work(device) in each device's thread, at the same time. The first device's Error counts.
  Result<> on_devices(const std::function<Result<>(size_t device)>& work);
  // Executor's, on all devices; overflowed and left_out_update: on any.
  void set_loss_scale(double scale, uint32_t good_steps = 0);
  // Of the whole batch; {}: none.
  void announce(const Batch& batch);
  bool overflowed();
  bool left_out_update();
  // Of the whole batch, in its order; the devices' threads stand still.
  std::span<const float> probabilities();

 private:
  struct Share {
    int64_t begin = 0, count = 0;  // images of the batch
    WeightsWait wait = {};         // the executor's calls: they add the device
    GradientReady ready = {};
    Result<> outcome = {};
  };
  Result<> on_each(const std::function<void(int64_t)>& work);
  void forward_on(size_t device);
  void backward_on(size_t device);

  std::vector<std::unique_ptr<Executor>> executors_;
  std::vector<Share> shares_;
  std::function<void(int64_t)> forward_, backward_;
  ThreadPool pool_;
  // Of the call under way:
  Batch batch_;
  int64_t batch_size_ = 0;
  const DeviceCall* call_ = nullptr;
  Buffer<float> probabilities_;  // with several devices: gathered when somebody asks
  bool is_gathered_ = false;
};

inline Result<> no_device_wait(size_t, size_t) {
  return {};
}

}  // namespace dtrain::exec
