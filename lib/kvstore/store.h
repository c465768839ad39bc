// A store turns gradients into new weights. The step loop knows only this interface. Behind it are the devices of this
// process (worker/device_store.h), servers on the network (worker/dist_store.h), or both, with the devices in front of
// the servers.
//
// Keys are the indices of the parameters, followed by the moving statistics (key = number of parameters + index).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "kvstore/counters.h"
#include "tensor/parameters.h"

namespace dtrain::kvstore {

// What a checkpoint needs in addition to the weights: the optimizer state, taken at one consistent version.
struct TrainingState {
  std::vector<NamedArray> slots;  // the optimizer state's arrays, named "PARAMETER:SLOT", in canonical order
  uint64_t samples = 0;    // samples applied since the start of the job: the position in the learning-rate schedule
  uint64_t updates = 0;    // number of updates of each parameter
  double rate_factor = 1;  // the factor by which the run has changed the schedule's learning rate
};

// The messages between a worker and its servers, and the bytes of values in them, without headers.
struct Traffic {
  uint64_t sent = 0, received = 0;  // bytes of values sent and received
  uint64_t sent_messages = 0, received_messages = 0;
};

struct StoreTimes {
  double wait_s = 0;  // time for which the step loop waited for other devices and processes
  // What was sent and received; nullopt: not counted, because a library such as NCCL does the sending.
  std::optional<Traffic> traffic = Traffic{};
};

// A bucket on one of the worker's devices.
struct DeviceBucket {
  size_t bucket = 0;
  size_t device = 0;
  // This constructor is implicit, because most workers have only device 0.
  DeviceBucket(size_t bucket, size_t device = 0) : bucket(bucket), device(device) {}
};

// The part of a store for schemes with groups (GSP). All workers call its functions at the same point, when all have
// the newest weights and no gradient is in flight.
class GroupedStore {
 public:
  virtual ~GroupedStore() = default;
  // Sets the group of each worker, indexed by rank. Only rank 0 calls it. Returns the number of the next step, which
  // all workers then pass to set_next_step(); 0: a server is lost, and gets the groups with ServerLinks::align().
  virtual Result<uint64_t> regroup(std::span<const uint32_t> group_of) = 0;
  virtual void set_next_step(uint64_t step) = 0;
};

// The part of a store whose devices decide whether a step counts (exec::Executor::skip_bad_steps).
class DeviceDecisions {
 public:
  virtual ~DeviceDecisions() = default;
  // Called before the first step. From then on the store updates no weight before it has queued a search of the sums of
  // all buckets, and all devices of all workers skip the same steps.
  virtual void decide_on_devices() = 0;
  // To be called once for each step, in their order, when its outcome is known: the devices have counted or skipped it.
  // The gradients of one more step may have been handed over before. Until this call, the step's number is that of a
  // step that counts. `samples` as in gradient_ready().
  virtual void settle_step(uint32_t samples, bool counts) = 0;
};

// The part of a store whose workers add up their gradients in a group without servers. Such a group cannot continue
// without a member, but it can be made anew. If a member is lost, the others may be in the middle of a step, and some
// of them may have updated a part of their weights already.
class WorkerGroup {
 public:
  virtual ~WorkerGroup() = default;
  // Ends the group: every call that needs it returns `why`, until renew(). The first reason is kept. Any thread may
  // call it; to be called when a member of the group is gone, because a process that hangs keeps its connections.
  virtual void break_up(Error why) = 0;
  // Whether the group has ended, by break_up() or because a connection to another member has. An error of the store is
  // then no reason for this worker to end.
  [[nodiscard]] virtual bool is_broken() const = 0;
  // The ranks of the members, sorted. Any thread may call it.
  [[nodiscard]] virtual std::vector<uint32_t> members() const = 0;
  // Makes the group anew, of the workers with these ranks. All of them call it, without a step in progress. Afterwards
  // all have the same weights and optimizer state: of each bucket, the newest that one of them had. next_step() is then
  // the first step that is not complete in all buckets. If it was in progress, all must make it again; buckets that
  // have this step's update already keep it. A worker that joins the running job calls take_over() before, and also
  // gets the moving statistics. An Error with which is_broken() is true: another worker was lost meanwhile, so that all
  // must call it again.
  virtual Result<> renew(const std::vector<uint32_t>& members) = 0;
  // Whether some buckets, but not all, had the update of next_step() when renew() returned. The gradients for the
  // others are then computed with weights of two versions. The same on all members.
  [[nodiscard]] virtual bool has_part_of_step() const = 0;
  // The run goes back: gives all members the weights and statistics that the first device of the worker with the rank
  // `giver` now has, and its optimizer state. All of them call it, without a step in progress; all but the giver with a
  // state without arrays. Errors as those of renew(). After an error, only those have weights that had them all; the
  // others get them from these in renew().
  virtual Result<> go_back(std::span<const ParameterView> devices, const TrainingState& state, uint32_t giver) = 0;
};

// The part of a store whose servers may be replaced. If one of them is lost, the steps in progress cannot be completed.
// The other servers then go back to an earlier version together with the new one, and so must the workers. Or the
// others keep what they have, and the workers continue where they are (align()).
class ServerLinks {
 public:
  virtual ~ServerLinks() = default;
  // A server is lost: every call that needs one returns `why`, until mend() and forget_requests() have both been
  // called. The first reason is kept. Any thread may call it.
  virtual void break_up(Error why) = 0;
  // All servers are there again. Any thread may call it.
  virtual void mend() = 0;
  // Whether calls return such a reason. It is then no reason for this worker to end. Any thread may call it.
  [[nodiscard]] virtual bool is_broken() const = 0;
  // Forgets all requests that were not answered. To be called without a step in progress, before the servers go back,
  // which must not get a message from before after that.
  virtual void forget_requests() = 0;
  // Gives the servers the moving statistics that the first device now has. One worker calls it when the servers have
  // gone back, before all call Store::take_over().
  virtual Result<> give_statistics() = 0;
  struct Alignment {
    std::vector<uint32_t> group_of = {};  // the group of each seat of workers
    // How many steps the group of each seat is ahead of the last one; 0 without a bound on them.
    std::vector<uint64_t> leads = {};
  };
  // The same if the others keep what they have: from now on, all slices count as many updates and samples as the newest
  // one, have this worker's learning rate, and begin new rounds. Returns by how many updates the oldest one lags
  // behind.
  virtual Result<uint64_t> align(const Alignment& to) = 0;
};

// Threads: cancel() may be called from any thread, gradient_ready() and wait_for_weights() are called by each device's
// own thread, and everything else by the thread of the step loop.
class Store {
 public:
  virtual ~Store() = default;

  // Called on every worker before the first step. Distributes rank 0's weights, statistics and state (zeros if it has
  // no arrays) to all devices of all workers. `devices` are this worker's; the weights are taken from the first one.
  // When the call returns, all views hold the distributed weights and statistics. The counters of `state` must be the
  // same on every worker.
  virtual Result<> initialize(std::span<const ParameterView> devices, const TrainingState& state) = 0;

  // Only for jobs with servers. Called by one worker, between steps, before others call take_over():
  // gives the servers everything that these need. `back`: the run goes back. Its state, together with the weights and
  // statistics that the first device now has, replaces those of the servers. Null: it continues.
  virtual Result<> hand_over(const TrainingState* /*back*/) { return {}; }
  // Like initialize(), for a worker that joins the running job, and for all workers when the run goes back: takes the
  // weights, the statistics, the state that it needs and the numbers of the next rounds from the servers. The arrays of
  // `state` are not used. Without servers, they come from the other workers, in WorkerGroup::renew().
  virtual Result<> take_over(std::span<const ParameterView> devices, const TrainingState& state) {
    return initialize(devices, state);
  }

  // The number of the next step; called between steps. Numbers continue from the updates of the state that was given to
  // initialize(). Rounds that the other workers have completed without this one are skipped. May block until the
  // weights of the last step have arrived.
  virtual Result<uint64_t> next_step() = 0;
  // The device has finished the bucket's gradients of `step`, which is the next step (the executor's GradientReady).
  // Returns at once, except for bucket 0: it is the last one of a backward pass, so the caller may have to send it.
  // `samples` is the number of samples in this worker's step, over all its devices. 0 means that this worker leaves the
  // step out, because its loss or gradients were not finite: it contributes zeros, and all workers whose gradients are
  // summed with its own leave the step out too.
  virtual Result<> gradient_ready(DeviceBucket at, uint64_t step, uint32_t samples) = 0;
  // Waits until the device has the bucket's weights for the step after the last pushed one (the executor's
  // WeightsWait).
  virtual Result<> wait_for_weights(DeviceBucket at) = 0;

  // Waits for the weights of the next step. Returns the number of samples that have been applied to them, of all
  // workers since the start of the job.
  virtual Result<uint64_t> samples_applied() = 0;

  // All workers call the following functions at the same point (the end of an epoch, or a stop), with no gradient in
  // flight.
  //
  // Gives all workers the same moving statistics: the mean over each worker's devices, then the mean over the workers,
  // weighted by `samples`, the samples that each has processed since the last call.
  virtual Result<> share_statistics(uint64_t samples) = 0;
  // Gives all workers the same weights, the newest ones.
  virtual Result<> refresh() = 0;
  // Changes the learning rate of the following updates. `for_servers`: if there are servers that update, sends the
  // change to all of them and returns when all have confirmed it. One worker does so, and no worker may begin a step
  // before that.
  virtual Result<> set_rate(const RateChange& change, bool for_servers) = 0;
  // Fills `state` with the optimizer state that belongs to the weights. Rank 0 calls it between steps, with no gradient
  // in flight. `state` is empty, or was filled by this store before: then its memory is used again.
  virtual Result<> read_state(TrainingState& state) = 0;
  Result<TrainingState> state() {
    TrainingState state;
    DT_TRY_VOID(read_state(state));
    return state;
  }

  // Makes every current and future wait return `error`. The first error is kept. Any thread may call it.
  virtual void cancel(Error error) = 0;
  [[nodiscard]] virtual StoreTimes times() const = 0;
  // The time that the first device has spent updating weights. Takes no lock, so it can be read before and after each
  // call.
  [[nodiscard]] virtual double update_seconds() const { return 0; }

  // Interfaces that only some stores have. The store owns them. Null if this store lacks it; the result never changes.
  [[nodiscard]] virtual GroupedStore* groups() { return nullptr; }
  [[nodiscard]] virtual DeviceDecisions* device_decisions() { return nullptr; }
  [[nodiscard]] virtual WorkerGroup* worker_group() { return nullptr; }
  [[nodiscard]] virtual ServerLinks* server_links() { return nullptr; }
};

}  // namespace dtrain::kvstore
