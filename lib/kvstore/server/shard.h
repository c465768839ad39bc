// A server's share of the model: its slices of all keys. Each slice has a sync::Machine (which decides which workers
// wait for which), the weights, the sums of the open rounds, and the optimizer state. wire/header.h and wire/control.h
// describe what each message does.
//
// Slices are independent. Each has its own lock, which is held while its sum or update runs, but not while its answers
// are sent. The transport's threads sum different slices in parallel; large slices are updated by the shard's own
// threads. Answers are sent straight from the memory of the weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "kvstore/server/snapshots.h"
#include "kvstore/server/staleness_record.h"
#include "kvstore/update_rule.h"
#include "kvstore/wire/placement.h"
#include "kvstore/wire/transport.h"
#include "sync/event_log.h"
#include "sync/machine.h"
#include "telemetry/registry.h"

namespace dtrain::telemetry {
class Tracer;
}  // namespace dtrain::telemetry

namespace dtrain::kvstore {

struct ShardOptions {
  uint32_t server = 0;                // rank of this server, which selects its slices from the placement
  std::vector<Slice> placement = {};  // the slices of all servers
  // Multipliers of each parameter, indexed by key. Larger keys are statistics: their rounds include all workers and
  // yield the mean.
  std::vector<optim::Multipliers> parameters = {};
  UpdateRule rule = {};
  // If true, the workers update the weights: a round's answer carries the sum of its gradients and, in the header,
  // their number of samples. The shard then only distributes the optimizer state: rank 0 assigns it, and the others
  // pull it before the first round.
  bool sums_only = false;
  sync::Policy policy = {};     // only the ranks of its workers are accepted
  bool deterministic = false;   // gradients are added in rank order
  StalenessWeight weight = {};  // weight of an update, depending on its staleness
  // Called for the server's first slice of a parameter, while its lock is held. One slice is enough because all slices
  // have the same rounds.
  std::function<void(const GroupReport&)> on_report = nullptr;
  // Called for the server's first slice of a parameter after each update of that slice, with its version, while its
  // lock is held.
  std::function<void(uint64_t)> on_update = nullptr;
  // Called for the server's first slice of a parameter when worker 0 changes the learning rate, with the number of the
  // slice's next update. The slice's lock is held.
  std::function<void(const RateChange& change, uint64_t update)> on_rate = nullptr;
  // Called with the rank whose payload did not match its checksum, and the number of such payloads so far in this
  // slice. The slice's lock is held.
  std::function<void(uint32_t rank, uint64_t count)> on_corrupt = nullptr;
  // Called for a sum of gradients that has an infinite value or a NaN, with the worker whose gradient caused it. The
  // update was not made. The slice's lock is held.
  std::function<void(const Slice& slice, uint32_t rank)> on_not_finite = nullptr;
  // Called once, with the first exception in the shard, on the thread where it happened and without a lock. It must not
  // destroy the shard.
  std::function<void(const Error&)> on_failure = nullptr;
  sync::EventLog* event_log = nullptr;  // receives the events of all slices' machines; must outlive the shard
  telemetry::Tracer* tracer = nullptr;  // records messages and updates; null: they are not recorded
  int threads = 0;  // number of own threads for updates of large slices; 0: the transport's threads do everything
  SnapshotOptions snapshots = {};  // off by default; not with sums_only
};

struct ShardCounts {
  uint64_t pushes = 0;      // number of gradients added, counted for each slice
  uint64_t duplicates = 0;  // repeated messages that were dropped
  uint64_t late = 0;        // gradients that arrived after the end of their round and were lost (--backup)
  uint64_t refused = 0;     // requests that were answered with an error status
  uint64_t corrupt = 0;     // refused messages whose payload did not match its checksum
  uint64_t updates = 0;     // number of updates of slices
  uint64_t left_out = 0;    // rounds of slices without an update, because a worker left the step out
  uint64_t not_finite = 0;  // rounds of slices without an update, because the sum of the gradients was not finite
  double busy_s = 0;        // time of all threads spent receiving, summing and updating
  uint64_t parked = 0;      // requests that wait for other workers' gradients
  uint64_t queued = 0;      // updates of slices that wait for a thread
  // staleness[i]: number of updates with staleness i + 1, in the slice for which on_report is called.
  std::vector<uint64_t> staleness = {};
  // Time from a round's first gradient to its update, in the slice for which on_report is called.
  telemetry::Histogram::State round_s = {};
  // Delays of each worker's gradients, in the slice for which on_report is called; indexed by worker.
  std::vector<Lateness> lateness = {};
};

class ShardSlice;
class TaskQueue;
struct Request;

// Fail-stop: the first exception, whether std::bad_alloc or a failed check, may leave a slice half updated. From then
// on the shard ignores every message, so that no worker receives wrong values, and its process must end.
class Shard final : public ServerEvents {
 public:
  // Code::kUsage if the optimizer is unknown, there are no workers, a slice is empty or too large for one message, or
  // the directory of snapshots cannot be used.
  static Result<std::unique_ptr<Shard>> create(ShardOptions options);
  ~Shard() override;

  void on_message(const std::shared_ptr<Pipe>& peer, const Head& head, Pieces payload) override;

  // From now on only this incarnation is accepted for the rank. Without a call of admit(), the first incarnation that
  // sends a message is accepted.
  void admit(uint32_t rank, uint64_t incarnation);
  // The rank leaves the job, so rounds no longer wait for it, and its messages are refused until another incarnation is
  // admitted. A gradient that it has pushed still counts.
  void leave(uint32_t rank);
  // The rank takes part from `step` on; of a slice that has completed this round already, from the next one. To be
  // called while no round is in progress.
  void join(uint32_t rank, uint64_t step);
  // Refuses the messages of all workers until they are admitted again, and waits until those that have arrived are
  // dealt with. To be called before restore(), when all streams have been told to end.
  void shut_out_workers();
  // All slices keep their values, and begin new rounds without the ranks that have left, like those that restore() does
  // not change. To be called as restore().
  Result<> begin_anew();
  // All parameter slices return to snapshot `number`: to its weights, optimizer state, counters, learning rate and
  // groups. Their rounds begin anew at its version, without the ranks that have left. Requests that wait are never
  // answered, and unfinished sums are discarded. Statistics keep their values, if they have any, and begin new rounds;
  // on a new server they have none until any worker assigns them. Later snapshots are deleted, because the run will
  // take them again. A server without parameter slices has no snapshots, and any number can be restored.
  //
  // To be called while no worker is admitted and all streams have ended. It reads a file and waits for the disk. If it
  // fails with Code::kNotFound or kData before a slice has changed (see Snapshots::read), the shard is as before; after
  // any other error its process must end.
  Result<> restore(uint64_t number);
  // The job has ended well, so its snapshots are deleted. To be called when all streams have ended.
  void discard_snapshots();
  // Null without snapshots, and on a server without parameter slices.
  [[nodiscard]] const Snapshots* snapshots() const { return snapshots_.get(); }

  // One line for each worker that has waited for longer than `seconds`, with the workers that it waits for:
  //   "worker 3 waits 31 s for 14 slices (first: key 0 slice 0 version 418); missing: worker 5"
  [[nodiscard]] std::vector<std::string> overdue(double seconds) const;
  [[nodiscard]] ShardCounts counts() const;

 private:
  explicit Shard(ShardOptions options);
  Result<> open(size_t slot_count);
  [[nodiscard]] ShardSlice* find(SliceId id) const;  // returns null if this server does not hold the slice
  [[nodiscard]] bool may_speak(const Sender& sender);
  // Why a request of this sender cannot be handled. kOk if it can; then find(id) is not null.
  [[nodiscard]] Status objection(const Sender& sender, SliceId id);
  void handle(const std::shared_ptr<Pipe>& peer, const Head& head, Pieces payload);
  void on_data(const Request& request, Pieces payload);
  void settle_later(ShardSlice& slice);
  void send_held_answers();
  template <class Work>
  void stop_on_exception(Work&& work);
  void stop_with(const Error& error);

  const ShardOptions options_;
  struct State;
  std::unique_ptr<State> state_;
  std::unique_ptr<Snapshots> snapshots_;
  std::vector<std::unique_ptr<ShardSlice>> slices_;  // the slices that this server holds, sorted by (key, part)
  std::unique_ptr<TaskQueue> tasks_;                 // the last member, because its threads use the slices
};

}  // namespace dtrain::kvstore
