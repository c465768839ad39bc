// The store of a worker in a job with servers: gradients go out bucket by bucket, and new weights come back with the
// answers; or the sums of all workers' gradients, and the worker updates its weights itself (R-S6).
//
// Nothing is copied on the worker: gradients are sent from the executor's memory, answers are written into its weights.
// Sums have memory of their own, for a gradient may have to be sent again while its answer comes.
// The view's memory, and the pipes with their threads, must therefore end in this order: pipes, store, executor.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/waits.h"
#include "kvstore/placement.h"
#include "kvstore/store.h"
#include "kvstore/transport.h"
#include "kvstore/update_rule.h"
#include "kvstore/updater.h"
#include "tensor/buffer.h"

namespace dtrain::kvstore {

struct DistStoreOptions {
  uint32_t rank = 0;
  uint64_t incarnation = 1;                // random, 64 bit, not 0: this process among all that ever had the rank
  std::vector<Slice> placement = {};       // of all keys: parameters, then statistics
  std::vector<size_t> bucket_begin = {0};  // index of each bucket's first parameter, as the executor has them
  UpdateRule rule = {};                    // the servers have the same
  bool sums_only = false;                  // of the servers (ShardOptions): this worker updates, by `rule`
  int update_threads = 1;                  // then; the caller's is one of them
  double wait_limit_s = 300;               // of each wait; then Code::kPeerLost
  bool checksums = true;                   // of what it sends
  bool skips_steps = false;     // rounds end without the slowest workers (--backup), and these go on with the open one
  bool workers_differ = false;  // workers have different weights at a time: refresh() has work to do
};

class DistStore final : public Store, public ClientEvents {
 public:
  // Code::kUsage: an unknown optimiser. `waits` must outlive the store.
  static Result<std::unique_ptr<DistStore>> create(DistStoreOptions options, Waits& waits);
  // One a server, in order of rank; before anything else.
  void attach(std::vector<std::shared_ptr<Pipe>> pipes);

  // One device: where a worker has several, DeviceStore stands before it.
  Result<> initialize(std::span<const ParameterView> devices, const TrainingState& state) override;
  Result<> gradient_ready(DeviceBucket at, uint64_t step, uint32_t samples) override;
  Result<> weights_wait(DeviceBucket at) override;
  Result<uint64_t> next_step() override;
  Result<uint64_t> samples_applied() override;
  Result<> share_statistics(uint64_t samples) override;
  Result<> refresh() override;
  Result<uint64_t> regroup(std::span<const uint32_t> group_of) override;
  void go_on_with(uint64_t step) override { next_step_ = step; }
  Result<TrainingState> state() override;
  void cancel(Error error) override;
  [[nodiscard]] StoreTimes times() const override;

  void on_message(uint32_t server, const Header& header, Pieces payload) override;
  void on_reconnected(uint32_t server) override;

 private:
  // A slice as the worker sees it. One request at a time: pushes wait for their answer before the next one.
  struct Part {
    Slice slice;
    std::span<float> value;  // of the weight or statistic
    std::span<const float> gradient;
    std::span<float> answer;                    // where that of a push goes: `value`, or the sum
    std::vector<std::span<const float>> state;  // by slot, during an assignment
    size_t bucket = 0;                          // statistics: one past the last

    bool waits = false;     // for an answer
    Header request;         // the last one
    uint32_t samples = 0;   // that are in the sum it was answered with
    uint64_t version = 0;   // of the values it was answered with
    std::span<float> into;  // where the answer's values go; empty: it has none
    uint64_t received = 0;  // elements of it
    uint64_t attempt = 0;   // how often it was sent again
  };

  DistStore(DistStoreOptions options, std::vector<std::string> slots, std::unique_ptr<Updater> updater, Waits& waits);
  Result<> bind(const ParameterView& view);
  Result<> begin_updates(const TrainingState& state);
  Result<> bind_state(const TrainingState& state);
  [[nodiscard]] size_t bucket_count() const { return options_.bucket_begin.size(); }
  [[nodiscard]] bool is_statistic(const Part& part) const { return part.bucket == bucket_count(); }
  [[nodiscard]] size_t bucket_of(uint32_t key) const;

  // Makes the request the part's open one; the caller sends it afterwards, without the lock.
  void begin(Part& part, const Header& request, std::span<float> into);
  void send(const Part& part);
  void send_assignment(const Part& part, Pipe& pipe);
  [[nodiscard]] Header request_of(const Part& part, Kind kind, uint64_t step, uint64_t version, uint32_t samples) const;
  [[nodiscard]] uint64_t next_request() { return kRequestBit | ++request_count_; }

  // A request for each part that is `wanted`, all at once; returns when all are answered.
  using Wanted = bool (DistStore::*)(const Part&) const;
  template <class Begin>  // begin_part(part) begins its request, under the lock
  Result<> ask(const char* what, Wanted wanted, const Begin& begin_part);
  Result<> assign();
  Result<> pull(Kind kind, Wanted wanted, uint64_t version);
  Result<TrainingState> fetch_state();
  Result<> fetch_slot(size_t slot, std::span<NamedArray> arrays);
  Result<Counters> fetch_counters();
  Result<> exchange(const char* what, const std::vector<Part*>& parts);
  [[nodiscard]] bool any(const Part&) const { return true; }
  [[nodiscard]] bool is_parameter(const Part& part) const { return !is_statistic(part); }

  Result<> update_from_sum(size_t bucket);
  Result<> wait_for_weights();
  Result<> wait_until_answered(const char* what, size_t first_bucket, size_t end_bucket);
  [[nodiscard]] std::string describe_open() const;
  [[nodiscard]] bool is_expected(const Part& part, const Header& header) const;
  [[nodiscard]] Error refusal(uint32_t server, const Header& header) const;
  void fail_all(Error error);

  // Marks the step of a request that is no push, so that no late answer to one is taken for the other.
  static constexpr uint64_t kRequestBit = uint64_t{1} << 63;

  const DistStoreOptions options_;
  const std::vector<std::string> slots_;
  Waits& waits_;
  std::vector<std::shared_ptr<Pipe>> pipes_;
  ParameterView view_;
  std::vector<Part> parts_;                          // in order of (key, part)
  std::vector<std::vector<Part*>> parts_of_;         // by bucket; the last: statistics
  std::unordered_map<uint64_t, size_t> part_index_;  // by key << 32 | part
  Counters counters_;                                // that an assignment carries
  std::vector<uint32_t> group_of_;                   // that a regrouping carries
  std::unique_ptr<Updater> updater_;                 // if this worker updates
  std::vector<Buffer<float>> sums_;                  // by parameter, if this worker updates
  std::vector<bool> sum_is_new_;                     // by bucket, if this worker updates: asked for and not yet applied
  uint64_t assign_count_ = 0;
  uint64_t share_count_ = 0;
  uint64_t request_count_ = 0;
  uint64_t next_step_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<size_t> open_;    // by bucket: parts that wait; the last: statistics
  std::optional<Error> error_;  // the first one
  double wait_s_ = 0;
  uint64_t samples_applied_ = 0;  // to the first slice, as its last answer says
};

}  // namespace dtrain::kvstore
