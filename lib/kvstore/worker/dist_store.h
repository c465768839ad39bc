// The store of a worker in a job with servers. Gradients are sent bucket by bucket. The answers bring the new weights
// or, with sums_only, the sums of all workers' gradients, from which the worker updates its weights itself.
//
// The worker copies nothing: gradients are sent from the executor's memory, and answers are written into its weights.
// Sums have separate memory, because a gradient may have to be sent again while its answer arrives. The pipes, the
// store and the executor must therefore be destroyed in this order. For the requests about a slice and their answers,
// see slice_requests.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/waits.h"
#include "kvstore/counters.h"
#include "kvstore/store.h"
#include "kvstore/update_rule.h"
#include "kvstore/wire/placement.h"
#include "kvstore/wire/transport.h"
#include "kvstore/worker/slice_requests.h"
#include "kvstore/worker/training_state.h"
#include "kvstore/worker/updater.h"
#include "tensor/buffer.h"

namespace dtrain::kvstore {

struct DistStoreOptions {
  uint32_t rank = 0;
  uint64_t incarnation = 1;                // 64 random bits, not 0, that distinguish processes of one rank
  std::vector<Slice> placement = {};       // slices of all keys: parameters, then statistics
  std::vector<size_t> bucket_begin = {0};  // index of each bucket's first parameter; same as the executor's
  UpdateRule rule = {};                    // the rule by which weights are updated; same as the servers'
  bool sums_only = false;  // same as the servers' (ShardOptions): this worker updates its weights, by `rule`
  int update_threads = 1;  // with sums_only: number of threads for an update, including the caller's
  telemetry::Timeline* timeline = nullptr;  // where messages and waits are recorded; null: not recorded
  Log log = Log::silent();  // gets lines about slices that were damaged in transit, and about skipped steps
  // Rounds may end without the slowest workers (--backup), which then continue with the open round.
  bool skips_steps = false;
  bool workers_differ = false;  // workers may have different weights at the same time, so refresh() has work to do
};

class DistStore final : public Store, public GroupedStore, public ServerLinks, public ClientEvents {
 public:
  // Code::kUsage if the optimizer is unknown. `waits` must outlive the store.
  static Result<std::unique_ptr<DistStore>> create(DistStoreOptions options, Waits& waits);
  // Must be called first. One pipe per server, sorted by rank.
  void attach(std::vector<std::shared_ptr<Pipe>> pipes) { requests_.attach(std::move(pipes)); }

  // Takes one device. A worker with several devices puts a DeviceStore in front of this store.
  Result<> initialize(std::span<const ParameterView> devices, const TrainingState& state) override;
  Result<> hand_over(const TrainingState* back) override;
  Result<> take_over(std::span<const ParameterView> devices, const TrainingState& state) override;
  Result<> gradient_ready(DeviceBucket at, uint64_t step, uint32_t samples) override;
  Result<> wait_for_weights(DeviceBucket at) override;
  Result<uint64_t> next_step() override;
  Result<uint64_t> samples_applied() override;
  Result<> share_statistics(uint64_t samples) override;
  Result<> refresh() override;
  Result<uint64_t> regroup(std::span<const uint32_t> group_of) override;
  void set_next_step(uint64_t step) override { next_step_ = step; }
  Result<> set_rate(const RateChange& change, bool for_servers) override;
  Result<> read_state(TrainingState& state) override;
  void cancel(Error error) override { requests_.cancel(std::move(error)); }
  [[nodiscard]] StoreTimes times() const override { return requests_.times(); }
  [[nodiscard]] double update_seconds() const override { return updater_ == nullptr ? 0 : updater_->seconds(); }
  // requests() and traffic() may be called by any thread.
  [[nodiscard]] RequestCounts requests() const { return requests_.counts(); }
  [[nodiscard]] std::vector<Traffic> traffic() const { return requests_.traffic(); }
  [[nodiscard]] GroupedStore* groups() override { return this; }
  [[nodiscard]] ServerLinks* server_links() override { return this; }
  void break_up(Error why) override { requests_.break_up(std::move(why)); }
  void mend() override { requests_.mend(); }
  [[nodiscard]] bool is_broken() const override { return requests_.is_broken(); }
  void forget_requests() override;
  Result<> give_statistics() override;
  Result<uint64_t> align(const Alignment& to) override;

  void on_message(uint32_t server, const Head& head, Pieces payload) override {
    requests_.on_message(server, head, payload);
  }
  void on_reconnected(uint32_t server) override { requests_.on_reconnected(server); }

 private:
  // The memory of a slice.
  struct WorkerSlice {
    std::span<float> value;  // memory of the weights or statistic
    std::span<const float> gradient;
    std::span<float> push_answer;  // where the answer to a push is written: `value`, or the sum
    size_t bucket = 0;             // the bucket that the slice belongs to; for a statistic, one past the last bucket
  };

  DistStore(DistStoreOptions options, std::vector<std::string> slots, std::unique_ptr<Updater> updater, Waits& waits);
  Result<> bind(const ParameterView& view);
  Result<> begin(std::span<const ParameterView> devices, const TrainingState& state);
  Result<> fetch_all();
  Result<> begin_updates(const TrainingState& state);
  void continue_rounds();
  [[nodiscard]] size_t bucket_count() const { return options_.bucket_begin.size(); }
  [[nodiscard]] size_t bucket_of(uint32_t key) const;
  [[nodiscard]] bool any(const WorkerSlice&) const { return true; }
  [[nodiscard]] bool is_statistic(const WorkerSlice& own) const { return own.bucket == bucket_count(); }
  [[nodiscard]] bool is_parameter(const WorkerSlice& own) const { return !is_statistic(own); }

  // Sends request_of(index) for each slice for which `wanted` is true, and returns when all are answered.
  using Wanted = bool (DistStore::*)(const WorkerSlice&) const;
  template <class RequestOf>
  Result<> ask(const char* what, Wanted wanted, const RequestOf& request_of);
  Result<> assign(const TrainingState& state);
  Result<> pull(Kind kind, Wanted wanted, uint64_t step);
  Result<> fetch_state(TrainingState& state);
  Result<> fetch_slot(size_t slot, TrainingState& state);
  Result<Counters> fetch_counters();

  void log_left_out();
  Result<> update_from_sum(size_t bucket);
  uint32_t equalize_samples(size_t bucket);
  Result<> wait_for_weights();

  const DistStoreOptions options_;
  const std::vector<std::string> slots_;
  ParameterView view_;
  std::vector<WorkerSlice> slices_;             // as in the placement, sorted by (key, part)
  std::vector<std::vector<size_t>> slices_of_;  // slices of each bucket; the last entry: statistics
  std::unique_ptr<Updater> updater_;            // updates the weights; null unless this worker updates
  std::vector<Buffer<float>> sums_;             // sum of each parameter; empty unless this worker updates
  std::vector<bool> sum_is_new_;                // for each bucket: the sum was requested but has not been applied yet
  uint64_t share_count_ = 0;
  uint64_t next_step_ = 0;
  uint32_t pushed_samples_ = 0;  // samples of the last pushed step; 0 once its weights have arrived
  double rate_factor_ = 1;       // the last factor that was set
  uint64_t first_samples_ = 0;   // samples applied when the job began
  SliceRequests requests_;       // the requests, in one group for each bucket and a last group for statistics
};

}  // namespace dtrain::kvstore
