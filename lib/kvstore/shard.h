// A server: its slices of all keys, each with a sync::Machine that decides, the weights, the round's sum and the
// optimiser's state. What it does with each message says wire.h.
//
// Slices are independent: each has its own lock, held while its sum or update runs, so that slices are summed by the
// transport's threads in parallel, and large ones updated by the shard's own. Answers go out of the weights' own
// memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "kvstore/placement.h"
#include "kvstore/staleness_record.h"
#include "kvstore/transport.h"
#include "kvstore/update_rule.h"
#include "sync/machine.h"
#include "sync/trace.h"

namespace dtrain::kvstore {

struct ShardOptions {
  uint32_t server = 0;                // rank: which slices of the placement are its own
  std::vector<Slice> placement = {};  // of all servers
  // By key; the keys after them are statistics: rounds of all workers, and their mean.
  std::vector<optim::Multipliers> parameters = {};
  UpdateRule rule = {};
  // The workers update (R-S6): a round's answer carries the sum of its gradients and, in the header, of its samples.
  // The optimiser's state is then only passed on: what rank 0 assigned, for the others to pull before the first round.
  bool sums_only = false;
  sync::Policy policy = {};     // its workers are the ranks that may speak
  bool deterministic = false;   // sums in rank order
  StalenessWeight weight = {};  // of an update
  bool checksums = true;        // of what it sends; what it gets is checked where there is one
  // Called for the server's first slice of a parameter, with its lock held: all slices see the same rounds.
  std::function<void(const GroupReport&)> on_report = nullptr;
  // Likewise, after each of its updates: its version.
  std::function<void(uint64_t)> on_update = nullptr;
  sync::TraceWriter* trace = nullptr;  // of all slices' machines; outlives the shard
  int threads = 0;                     // of its own, for updates of large slices; 0: all is done in the transport's
};

struct ShardCounts {
  uint64_t pushes = 0;                   // gradients added, of whole slices
  uint64_t duplicates = 0;               // dropped
  uint64_t late = 0;                     // gradients of rounds that were over: lost (--backup)
  uint64_t refused = 0;                  // answered with a status that is an error
  uint64_t updates = 0;                  // of slices
  double busy_s = 0;                     // of all threads: receiving, summing, updating
  std::vector<uint64_t> staleness = {};  // [i]: updates of the reporting slice with staleness i + 1
};

class ShardSlice;
class TaskQueue;

class Shard final : public ServerEvents {
 public:
  // Code::kUsage: an unknown optimiser, a placement that does not fit.
  static Result<std::unique_ptr<Shard>> create(ShardOptions options);
  ~Shard() override;

  void on_message(const std::shared_ptr<Pipe>& peer, const Header& header, Pieces payload) override;

  // From now on only this incarnation may speak for the rank. Without it, the first one that speaks is taken.
  void admit(uint32_t rank, uint64_t incarnation);
  // The rank takes no part any more: rounds do not wait for it. Code::kPeerLost: half of a gradient of it is in a sum
  // already (deterministic shards can take it out).
  Result<> leave(uint32_t rank);
  // The rank takes part from `step` on.
  void join(uint32_t rank, uint64_t step);

  // A line for each worker that has waited longer, and for whom:
  //   "key 12 slice 0 version 418: worker 3 waits 31 s; missing: worker 5"
  [[nodiscard]] std::vector<std::string> overdue(double seconds) const;
  // A bug that one of the shard's own threads met: the server must end.
  [[nodiscard]] std::optional<Error> failure() const;
  [[nodiscard]] ShardCounts counts() const;

 private:
  Shard(ShardOptions options, size_t slot_count);
  [[nodiscard]] ShardSlice* find(uint32_t key, uint32_t part) const;
  [[nodiscard]] bool may_speak(uint32_t rank, uint64_t incarnation);
  void dispatch(ShardSlice& slice, const std::shared_ptr<Pipe>& peer, const Header& header, Pieces payload);

  const ShardOptions options_;
  struct State;
  std::unique_ptr<State> state_;
  std::vector<std::unique_ptr<ShardSlice>> slices_;  // in order of (key, part)
  std::unique_ptr<TaskQueue> tasks_;                 // the last: its threads use the slices
};

}  // namespace dtrain::kvstore
