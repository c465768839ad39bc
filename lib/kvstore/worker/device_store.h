// The store over the devices of a process. For each bucket, while the backward pass still runs, it sums the devices'
// gradients, has new weights computed from the sum, and distributes them to all devices. The same code serves all
// stores without servers and the devices of a worker with servers; they differ only in where the update happens
// (UpdateAt).
//
// All devices end a step with the same bits. comm sums in a fixed order, so the bits do not depend on where the update
// happens.
//
// If the arrays are in the host's memory, each device has its own thread for its exchanges. If they are in device
// memory, the calling thread queues the operations on the device in the order of the calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/waits.h"
#include "comm/collective.h"
#include "kvstore/store.h"
#include "kvstore/task_queue.h"
#include "kvstore/worker/updater.h"

namespace dtrain::telemetry {
class Timeline;
}  // namespace dtrain::telemetry

namespace dtrain::kvstore {

// Where a sum becomes new weights. The names in the comments are those of --kv-store.
enum class UpdateAt {
  kFirstDevice,  // local: the sum goes to device 0, whose weights go to all devices
  kOwner,        // device: each bucket has an owner that updates it, chosen to balance the work
  kShards,       // nccl: reduce-scatter, each device updates its part, all-gather
  kReplicas,     // nccl_allreduce, allreduce: all-reduce, each device updates all of its own weights
  kServers,      // dist_*: the sum goes to device 0, which pushes and pulls; the new weights go to all devices
};

struct DeviceStoreOptions {
  UpdateAt update_at = UpdateAt::kFirstDevice;
  UpdateRule rule = {};
  std::vector<size_t> bucket_begin = {0};  // index of each bucket's first parameter; same as in the executors
  int threads = 1;                         // number of threads for an update, including the caller's
  // True if workers of one group may contribute different numbers of samples in a step. The numbers are then summed in
  // every step, before the gradients. A worker that contributes no samples has left the step out, because its loss or
  // gradient was not finite. All others then leave it out too.
  bool samples_differ = true;
  // With kServers: the devices have already summed their gradients, and the first device holds the sum.
  bool gradients_are_summed = false;
  telemetry::Timeline* timeline = nullptr;  // where the exchanges are recorded; null: not recorded
  // Makes the groups of this process's devices, as in create(), among the workers with these ranks; with kServers, only
  // of those devices. Null: a worker, or with kServers a server, cannot be lost without the others. Only with kReplicas
  // or kServers, and arrays in the host's memory.
  std::function<Result<std::vector<std::unique_ptr<comm::Collective>>>(const std::vector<uint32_t>& members)>
      make_group = nullptr;
  std::vector<uint32_t> members = {};  // with make_group: the ranks of the first group's workers
  bool joins = false;  // whether this worker joins the running job, so that it has no group before renew()
};

class DeviceStore final : public Store, private DeviceDecisions, private WorkerGroup, private ServerLinks {
 public:
  // `group` has one end of a collective group for each device of this process, in order. If it is empty, there is one
  // device without peers, which updates in the caller's thread. With kServers, `servers` is the store behind this one.
  // Code::kUsage if the optimizer is unknown. `waits` must outlive the store.
  static Result<std::unique_ptr<DeviceStore>> create(DeviceStoreOptions options,
                                                     std::vector<std::unique_ptr<comm::Collective>> group,
                                                     std::unique_ptr<Store> servers, Waits& waits);
  // Like create, for arrays in the devices' own memory (ParameterView::device). Each device has an optimizer, which
  // only queues its work on the device, as the group's operations do. samples_differ is ignored: such workers always
  // contribute the same numbers of samples, because their devices skip the same steps.
  using Optimizers = std::vector<std::unique_ptr<optim::ArrayOptimizer>>;
  static Result<std::unique_ptr<DeviceStore>> create_on_devices(DeviceStoreOptions options,
                                                                std::vector<std::unique_ptr<comm::Collective>> group,
                                                                Optimizers optimizers, Waits& waits);
  ~DeviceStore() override;

  // With several devices, the arrays of each view must be contiguous (tensor/parameters.h).
  Result<> initialize(std::span<const ParameterView> devices, const TrainingState& state) override;
  Result<> gradient_ready(DeviceBucket at, uint64_t step, uint32_t samples) override;
  Result<> wait_for_weights(DeviceBucket at) override DT_EXCLUDES(mutex_);
  Result<> hand_over(const TrainingState* back) override { return servers_ ? servers_->hand_over(back) : Result<>{}; }
  Result<> take_over(std::span<const ParameterView> devices, const TrainingState& state) override;
  Result<uint64_t> next_step() override;
  Result<uint64_t> samples_applied() override;
  Result<> share_statistics(uint64_t samples) override;
  Result<> refresh() override;
  Result<> set_rate(const RateChange& change, bool for_servers) override;
  Result<> read_state(TrainingState& state) override;
  void cancel(Error error) override DT_EXCLUDES(mutex_);
  [[nodiscard]] StoreTimes times() const override;
  [[nodiscard]] double update_seconds() const override;
  // Without servers there are no groups.
  [[nodiscard]] GroupedStore* groups() override { return servers_ ? servers_->groups() : nullptr; }
  // Not null if the arrays are in the devices' memory.
  [[nodiscard]] DeviceDecisions* device_decisions() override { return on_devices_ ? this : nullptr; }
  [[nodiscard]] WorkerGroup* worker_group() override { return options_.make_group && !servers_ ? this : nullptr; }
  [[nodiscard]] ServerLinks* server_links() override {
    return options_.make_group && links() != nullptr ? this : nullptr;
  }

 private:
  static constexpr uint64_t kNoStep = ~uint64_t{0};
  struct Device {
    DeviceStore* store = nullptr;
    ParameterView view = {};
    // The device's end of the collective group; null: this device has no peers.
    std::unique_ptr<comm::Collective> group = nullptr;
    std::unique_ptr<Updater> updater = nullptr;      // updates the device's weights; null: servers update them
    uint64_t step = kNoStep;                         // the step of the device's gradients
    uint32_t samples = 0;                            // samples in the summed gradients of all ranks
    std::unique_ptr<TaskQueue> exchanges = nullptr;  // one thread, which runs exchanges in order
  };
  struct RankTable;
  using Work = Result<> (DeviceStore::*)(Device& device, uint32_t bucket, uint32_t samples);

  DeviceStore(DeviceStoreOptions options, bool on_devices, std::unique_ptr<Store> servers, Waits& waits);
  [[nodiscard]] bool is_alone() const { return devices_.front().group == nullptr; }
  [[nodiscard]] uint32_t ranks() const { return is_alone() ? 1 : devices_.front().group->size(); }
  [[nodiscard]] size_t bucket_count() const { return options_.bucket_begin.size(); }
  [[nodiscard]] FlatInterval interval(size_t bucket) const;
  [[nodiscard]] std::vector<FlatInterval> owned_by(const Device& device) const;
  void choose_owners();
  [[nodiscard]] uint32_t owner(size_t bucket) const { return owners_.empty() ? 0 : owners_[bucket]; }

  void take(std::vector<std::unique_ptr<comm::Collective>> group) DT_EXCLUDES(mutex_, group_mutex_);
  // Of WorkerGroup, and of ServerLinks.
  void break_up(Error why) override DT_EXCLUDES(mutex_, group_mutex_);
  [[nodiscard]] bool is_broken() const override DT_EXCLUDES(mutex_);
  // Of ServerLinks: a step in progress ends on all devices, so their group is made anew.
  [[nodiscard]] ServerLinks* links() const { return servers_ ? servers_->server_links() : nullptr; }
  void mend() override { links()->mend(); }
  void forget_requests() override DT_EXCLUDES(mutex_, group_mutex_);
  Result<> give_statistics() override { return links()->give_statistics(); }
  Result<uint64_t> align(const Alignment& to) override { return links()->align(to); }
  // Of WorkerGroup.
  [[nodiscard]] std::vector<uint32_t> members() const override DT_EXCLUDES(mutex_);
  Result<> renew(const std::vector<uint32_t>& members) override;
  [[nodiscard]] bool has_part_of_step() const override { return has_part_of_step_; }
  Result<> go_back(std::span<const ParameterView> devices, const TrainingState& state, uint32_t giver) override;
  void decide_on_devices() override;
  void settle_step(uint32_t samples, bool counts) override DT_EXCLUDES(mutex_);

  // Runs `work` in this thread. An Error ends the store's work on all devices.
  template <Work work>
  Result<> carry_out(Device& device, uint32_t bucket, uint32_t samples);
  // Queues `work` on the device's exchange thread.
  template <Work work>
  void enqueue(Device& device, uint32_t bucket, uint32_t samples);
  // Runs `work` with carry_out() if the arrays are in device memory, and with enqueue() if they are in the host's
  // memory.
  template <Work work>
  Result<> push(Device& device, uint32_t bucket, uint32_t samples);
  // The tasks that exchange threads run.
  using Begin = Result<> (Store::*)(std::span<const ParameterView> devices, const TrainingState& state);
  Result<> begin(std::span<const ParameterView> devices, const TrainingState& state, Begin servers);
  Result<> bind(std::span<const ParameterView> devices, const TrainingState& state) DT_EXCLUDES(mutex_);
  Result<> start(Device& device, uint32_t, uint32_t giver);
  Result<> exchange(Device& device, uint32_t bucket, uint32_t samples);
  Result<> sum(Device& device, size_t bucket) const;
  Result<> search_and_update(Device& device, size_t bucket);
  Result<> update(Device& device, size_t bucket);
  Result<> agree(const Device& device) const;
  Result<> count_samples(Device& device, uint32_t bucket, uint32_t samples);
  Result<> fetch(Device& device, uint32_t bucket, uint32_t);
  Result<> average_statistics(Device& device, uint32_t, uint32_t samples);
  void end_group(const Error& why) DT_EXCLUDES(mutex_, group_mutex_);
  void close_group() DT_EXCLUDES(group_mutex_);
  // The steps of renew().
  Result<> adopt_newest(Device& device, uint32_t, uint32_t);
  Result<> adopt_bucket(Device& device, size_t bucket, const RankTable& table);
  Result<> adopt_statistics(const Device& device, const RankTable& table);
  Result<> refresh_weights(Device& device, uint32_t, uint32_t);
  void close(const Device& device, size_t bucket) DT_EXCLUDES(mutex_);
  // Whether the bucket already has this step's update, from another worker (renew). All workers then know it.
  [[nodiscard]] bool has_update(const Device& device, size_t bucket, uint64_t step) const {
    return options_.make_group && !servers_ && device.updater->counters(bucket).updates > step;
  }
  // Whether the bucket's new weights have not arrived yet, because the device's exchange thread has not finished.
  std::vector<bool>::reference is_open(DeviceBucket at) DT_REQUIRES(mutex_) {
    return is_open_[at.device * bucket_count() + at.bucket];
  }

  // Runs `work` on all devices and returns when all have finished.
  template <Work work>
  Result<> on_all(const char* name, uint32_t samples = 0);
  template <Work work>
  Result<> report(Device& device, uint32_t, uint32_t samples);
  [[nodiscard]] std::optional<Error> error() const DT_EXCLUDES(mutex_);
  // Why no call can succeed now; null: there is no reason.
  [[nodiscard]] const Error* why_not() const DT_REQUIRES(mutex_) {
    if (error_) return &*error_;
    return broken_ ? &*broken_ : nullptr;
  }
  // Cancels the exchanges in progress.
  void cancel_group(const Error& error) DT_EXCLUDES(group_mutex_);

  const DeviceStoreOptions options_;
  const bool on_devices_;  // whether the arrays are in device memory
  bool decides_ = false;   // whether decide_on_devices() was called
  Waits& waits_;
  std::vector<uint32_t> owners_;   // with kOwner: the owner of each bucket
  bool is_new_;                    // whether this worker has no weights yet, because it has joined the running job
  bool has_part_of_step_ = false;  // see has_part_of_step()

  mutable Mutex mutex_;
  ConditionVariable changed_;
  // Whether a bucket's new weights have not arrived yet; index: device * bucket_count() + bucket.
  std::vector<bool> is_open_ DT_GUARDED_BY(mutex_);
  uint64_t next_step_ DT_GUARDED_BY(mutex_) = 0;
  size_t busy_ DT_GUARDED_BY(mutex_) = 0;  // devices that have not finished the work of on_all
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);
  std::optional<Error> broken_ DT_GUARDED_BY(mutex_);  // why the group has ended; nullopt: it has not
  std::vector<uint32_t> members_ DT_GUARDED_BY(mutex_);
  double wait_s_ DT_GUARDED_BY(mutex_) = 0;

  Mutex group_mutex_;
  // The group of the first device, whose operations any thread may cancel. Null if there is none, or while it is
  // replaced.
  comm::Collective* first_group_ DT_GUARDED_BY(group_mutex_) = nullptr;
  std::unique_ptr<Store> servers_;  // destroyed after the exchange threads, which use it
  std::vector<Device> devices_;
};

}  // namespace dtrain::kvstore
