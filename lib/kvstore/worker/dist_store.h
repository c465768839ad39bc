// The store of a worker in a job with servers. Gradients are sent bucket by bucket. The answers bring the new weights
// or, with sums_only, the sums of all workers' gradients, from which the worker updates its weights itself.
//
// The worker copies nothing: gradients are sent from the executor's memory, and answers are written into its weights.
// Sums have memory of their own, because a gradient may have to be sent again while its answer arrives. The pipes'
// threads and the view's memory must therefore be destroyed in this order: pipes, store, executor.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/waits.h"
#include "kvstore/counters.h"
#include "kvstore/store.h"
#include "kvstore/update_rule.h"
#include "kvstore/wire/placement.h"
#include "kvstore/wire/transport.h"
#include "kvstore/worker/updater.h"
#include "tensor/buffer.h"

namespace dtrain::kvstore {

struct DistStoreOptions {
  uint32_t rank = 0;
  uint64_t incarnation = 1;                // 64 random bits, not 0: tells processes of one rank apart
  std::vector<Slice> placement = {};       // of all keys: parameters, then statistics
  std::vector<size_t> bucket_begin = {0};  // index of each bucket's first parameter; same as the executor's
  UpdateRule rule = {};                    // same as the servers'
  bool sums_only = false;                  // same as the servers' (ShardOptions): this worker updates, by `rule`
  int update_threads = 1;                  // with sums_only; includes the caller's thread
  bool checksums = true;                   // of sent messages
  Log log = Log::silent();                 // names slices that were damaged on their way
  // Rounds may end without the slowest workers (--backup), which then continue with the open round.
  bool skips_steps = false;
  bool workers_differ = false;  // workers may have different weights at the same time, so refresh() has work to do
};

class DistStore final : public Store, public ClientEvents {
 public:
  // Code::kUsage: an unknown optimizer. `waits` must outlive the store.
  static Result<std::unique_ptr<DistStore>> create(DistStoreOptions options, Waits& waits);
  // Must be called first. One pipe per server, in order of rank.
  void attach(std::vector<std::shared_ptr<Pipe>> pipes);

  // Takes one device. A worker with several devices puts a DeviceStore in front of this store.
  Result<> initialize(std::span<const ParameterView> devices, const TrainingState& state) override;
  Result<> gradient_ready(DeviceBucket at, uint64_t step, uint32_t samples) override;
  Result<> wait_for_weights(DeviceBucket at) override;
  Result<uint64_t> next_step() override;
  Result<uint64_t> samples_applied() override;
  Result<> share_statistics(uint64_t samples) override;
  Result<> refresh() override;
  Result<uint64_t> regroup(std::span<const uint32_t> group_of) override;
  void set_next_step(uint64_t step) override { next_step_ = step; }
  Result<TrainingState> state() override;
  void cancel(Error error) override DT_EXCLUDES(mutex_);
  [[nodiscard]] StoreTimes times() const override;

  void on_message(uint32_t server, const Head& head, Pieces payload) override;
  void on_reconnected(uint32_t server) override;

 private:
  // A slice as the worker sees it, and its request. It has at most one open request: the answer to a push must come
  // before the next push.
  struct WorkerSlice {
    Slice slice;
    std::span<float> value;  // the slice of the weight or statistic
    std::span<const float> gradient;
    std::span<float> push_answer;               // where the answer to a push is written: `value`, or the sum
    std::vector<std::span<const float>> state;  // by slot; set during an assignment
    size_t bucket = 0;                          // of a statistic: one past the last bucket

    bool waits = false;     // for an answer
    int damaged = 0;        // times that the request or its answer has come with a broken checksum
    Head request;           // the last one
    std::span<float> into;  // where the answer's values are written; empty: it has none

    // Of the last answer.
    uint32_t samples_in_sum = 0;
    uint64_t step = 0;  // that its weights begin
    Counters counters;  // to a control request
  };
  // What an answer says besides its values.
  struct Answer {
    uint64_t request = 0;
    Status status = Status::kOk;
    uint32_t payload_crc = 0;
    Encoding encoding = Encoding::kFloat32;
  };
  static std::optional<Answer> answer_of(const Head& head);  // nullopt: a request, which no server sends

  DistStore(DistStoreOptions options, std::vector<std::string> slots, std::unique_ptr<Updater> updater, Waits& waits);
  Result<> bind(const ParameterView& view);
  Result<> begin_updates(const TrainingState& state);
  Result<> bind_state(const TrainingState& state);
  [[nodiscard]] size_t bucket_count() const { return options_.bucket_begin.size(); }
  [[nodiscard]] bool is_statistic(const WorkerSlice& slice) const { return slice.bucket == bucket_count(); }
  [[nodiscard]] size_t bucket_of(uint32_t key) const;

  // Makes `request` the slice's open request. The caller sends it afterwards, without holding the lock.
  void begin(WorkerSlice& slice, Head request, std::span<float> into) DT_REQUIRES(mutex_);
  // Calls send(message) for each message of the slice's open request, in order. Computes their checksums.
  template <class Send>
  void each_message(const WorkerSlice& slice, const Send& send) const;
  void send(const WorkerSlice& slice);
  [[nodiscard]] Header data_request(const WorkerSlice& slice, Kind kind, uint64_t step, uint32_t samples = 0)
      DT_REQUIRES(mutex_);
  template <class What>
  [[nodiscard]] ControlRequest control_request(const WorkerSlice& slice, const What& what) DT_REQUIRES(mutex_);

  // Begins a request for each slice that is `wanted`, sends all of them, and returns when all are answered.
  using Wanted = bool (DistStore::*)(const WorkerSlice&) const;
  template <class Begin>  // begin_one(slice) begins its request, under the lock
  Result<> ask(const char* what, Wanted wanted, const Begin& begin_one);
  Result<> assign();
  Result<> pull(Kind kind, Wanted wanted, uint64_t step);
  Result<TrainingState> fetch_state();
  Result<> fetch_slot(size_t slot, std::span<NamedArray> arrays);
  Result<Counters> fetch_counters();
  Result<> send_and_wait(const char* what, const std::vector<WorkerSlice*>& slices) DT_EXCLUDES(mutex_);
  [[nodiscard]] bool any(const WorkerSlice&) const { return true; }
  [[nodiscard]] bool is_parameter(const WorkerSlice& slice) const { return !is_statistic(slice); }

  Result<> update_from_sum(size_t bucket);
  Result<> wait_for_weights();
  Result<> wait_until_answered(const char* what, size_t first_bucket, size_t end_bucket) DT_EXCLUDES(mutex_);
  [[nodiscard]] std::string describe_open() const DT_EXCLUDES(mutex_);
  // Why the values of an answer cannot be used; nullopt if they can.
  [[nodiscard]] std::optional<Error> objection(const WorkerSlice& slice, const Answer& answer, Pieces payload) const;
  [[nodiscard]] Error refusal(const WorkerSlice& slice, Status status) const;
  // After the request or its answer has come with a broken checksum: sends the request again, or fails the store if that
  // has happened too often.
  void send_again(WorkerSlice& slice) DT_EXCLUDES(mutex_);
  void close_request(WorkerSlice& slice, const Head& answer) DT_REQUIRES(mutex_);
  void fail_all(Error error) DT_REQUIRES(mutex_);

  const DistStoreOptions options_;
  const std::vector<std::string> slots_;
  Waits& waits_;
  std::vector<std::shared_ptr<Pipe>> pipes_;
  ParameterView view_;
  std::vector<WorkerSlice> slices_;                   // in order of (key, part)
  std::vector<std::vector<WorkerSlice*>> slices_of_;  // by bucket; the last entry: statistics
  std::map<SliceId, WorkerSlice*> slice_by_id_;
  Counters counters_;                 // sent with an assignment
  std::unique_ptr<Updater> updater_;  // null unless this worker updates
  std::vector<Buffer<float>> sums_;   // by parameter; empty unless this worker updates
  std::vector<bool> sum_is_new_;      // by bucket: the sum was asked for but not yet applied
  uint64_t share_count_ = 0;
  uint64_t next_step_ = 0;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  uint64_t request_count_ DT_GUARDED_BY(mutex_) = 0;
  std::vector<size_t> open_
      DT_GUARDED_BY(mutex_);  // by bucket: number of slices with an open request; the last entry: statistics
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);  // the first one
  uint64_t damaged_ DT_GUARDED_BY(mutex_) = 0;        // messages that came with a broken checksum
  double wait_s_ DT_GUARDED_BY(mutex_) = 0;
  uint64_t samples_applied_ DT_GUARDED_BY(mutex_) = 0;  // to the first slice, as of its last answer
};

}  // namespace dtrain::kvstore
