// The store over the devices of a process: sums their gradients, has the sum turned into new weights, and gives these
// back to all of them, bucket by bucket, while backward still runs. One code for all one-host stores, and the part of
// the others that is inside a worker; what differs is who updates. distributed.md 1.2, 1.3, R-S2 to R-S6.
//
// All devices end a step with the same bits, and by comm's ordered sum these do not depend on who updates.
//
// Where the arrays are the host's, exchanges run in threads of their own, a device each. Where they are the devices',
// all is only queued there, in the order of the calls, and in the thread that calls.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/waits.h"
#include "comm/collective.h"
#include "kvstore/store.h"
#include "kvstore/task_queue.h"
#include "kvstore/updater.h"

namespace dtrain::kvstore {

// Who turns a sum into new weights.
enum class UpdateAt {
  kFirstDevice,  // local: the sum goes to device 0, its weights go to all
  kOwner,        // device: each bucket has a device that does this, chosen so that all have the same work
  kShards,       // nccl: reduce-scatter, each device updates its part, all-gather
  kReplicas,     // nccl_allreduce, allreduce: all-reduce, each device updates all of its own weights
  kServers,      // dist_*: the sum goes to device 0, which pushes and pulls; new weights to all
};

struct DeviceStoreOptions {
  UpdateAt update_at = UpdateAt::kFirstDevice;
  UpdateRule rule = {};
  std::vector<size_t> bucket_begin = {0};  // as the executors have them
  int threads = 1;                         // of an update; the caller's is one of them
  double wait_limit_s = 300;               // of each wait; then Code::kPeerLost
  // Whether workers of one group may differ in the samples of a step: one that has left out its own gives none. Then
  // their number is summed in every step, before the gradients.
  bool samples_differ = true;
  // With kServers: the first device's gradients are the sum over all, which the devices have made by themselves.
  bool gradients_are_summed = false;
};

class DeviceStore final : public Store {
 public:
  // An end of one group for each device of this process, in order; none: one device and nobody else, which updates in
  // the caller's thread. With kServers `servers` is the store behind. Code::kUsage: an unknown optimiser. `waits` must
  // outlive the store.
  static Result<std::unique_ptr<DeviceStore>> create(DeviceStoreOptions options,
                                                     std::vector<std::unique_ptr<comm::Collective>> group,
                                                     std::unique_ptr<Store> servers, Waits& waits);
  // The same over arrays in the devices' own memory (ParameterView::device): an optimizer each, which like the group's
  // operations is only queued on the device. Where workers differ in their samples the host waits for these: then no
  // graph may hold a step.
  using Optimizers = std::vector<std::unique_ptr<optim::ArrayOptimizer>>;
  static Result<std::unique_ptr<DeviceStore>> create_on_devices(DeviceStoreOptions options,
                                                                std::vector<std::unique_ptr<comm::Collective>> group,
                                                                Optimizers optimizers, Waits& waits);
  ~DeviceStore() override;

  // With several devices the views must have their arrays in one piece (tensor/parameters.h).
  Result<> initialize(std::span<const ParameterView> devices, const TrainingState& state) override;
  Result<> gradient_ready(DeviceBucket at, uint64_t step, uint32_t samples) override;
  void take_back(uint32_t samples) override;
  Result<> weights_wait(DeviceBucket at) override;
  Result<uint64_t> next_step() override;
  Result<uint64_t> samples_applied() override;
  Result<> share_statistics(uint64_t samples) override;
  Result<> refresh() override;
  // Of the servers behind; without them it has no groups.
  Result<uint64_t> regroup(std::span<const uint32_t> group_of) override;
  void go_on_with(uint64_t step) override;
  Result<TrainingState> state() override;
  void cancel(Error error) override;
  [[nodiscard]] StoreTimes times() const override;

 private:
  static constexpr uint64_t kNoStep = ~uint64_t{0};
  struct Device {
    DeviceStore* store = nullptr;
    ParameterView view = {};
    std::unique_ptr<comm::Collective> group = nullptr;  // none: this device is alone
    std::unique_ptr<Updater> updater = nullptr;         // none: servers update
    uint64_t step = kNoStep;                            // that its gradients are of
    uint32_t samples = 0;                               // of all ranks, in its gradients
    std::vector<bool> is_open = {};                     // by bucket: a lane has it, and its weights have not come
    std::unique_ptr<TaskQueue> lane = nullptr;          // its exchanges, in order, in a thread of their own; ends first
  };
  using Work = Result<> (DeviceStore::*)(Device& device, uint32_t bucket, uint32_t samples);

  DeviceStore(DeviceStoreOptions options, bool on_devices, std::unique_ptr<Store> servers, Waits& waits);
  [[nodiscard]] bool is_alone() const { return devices_.front().group == nullptr; }
  [[nodiscard]] uint32_t ranks() const { return is_alone() ? 1 : devices_.front().group->size(); }
  [[nodiscard]] size_t bucket_count() const { return options_.bucket_begin.size(); }
  [[nodiscard]] FlatInterval interval(size_t bucket) const;
  [[nodiscard]] std::vector<FlatInterval> owned_by(const Device& device) const;
  void choose_owners();
  [[nodiscard]] uint32_t owner(size_t bucket) const { return owners_.empty() ? 0 : owners_[bucket]; }

  void take(std::vector<std::unique_ptr<comm::Collective>> group);

  // Does it, in this thread. An Error ends the store's work on all devices.
  template <Work work>
  Result<> carry_out(Device& device, uint32_t bucket, uint32_t samples);
  // Has the device's lane do it.
  template <Work work>
  void enqueue(Device& device, uint32_t bucket, uint32_t samples);
  // The one or the other, as a step needs it.
  template <Work work>
  Result<> hand_over(Device& device, uint32_t bucket, uint32_t samples);
  // What lanes do.
  Result<> start(Device& device, uint32_t, uint32_t);
  Result<> exchange(Device& device, uint32_t bucket, uint32_t samples);
  Result<> count_samples(Device& device, uint32_t bucket, uint32_t samples);
  Result<> fetch(Device& device, uint32_t bucket, uint32_t);
  Result<> average_statistics(Device& device, uint32_t, uint32_t samples);
  Result<> refresh_weights(Device& device, uint32_t, uint32_t);
  void close(Device& device, size_t bucket);

  // The same on all devices; returns when all have done it.
  template <Work work>
  Result<> on_all(const char* name, uint32_t samples = 0);
  template <Work work>
  Result<> report(Device& device, uint32_t, uint32_t samples);
  [[nodiscard]] std::optional<Error> error() const;

  const DeviceStoreOptions options_;
  const bool on_devices_;  // the arrays are
  Waits& waits_;
  std::vector<uint32_t> owners_;  // kOwner: by bucket

  mutable std::mutex mutex_;  // what follows, and Device::is_open
  std::condition_variable changed_;
  uint64_t next_step_ = 0;
  size_t busy_ = 0;  // devices that have not done what on_all asked for
  std::optional<Error> error_;
  double wait_s_ = 0;

  std::unique_ptr<Store> servers_;  // ends after the lanes that use it
  std::vector<Device> devices_;
};

}  // namespace dtrain::kvstore
