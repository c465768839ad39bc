// One slice on its server; implements shard.h for a single slice. Used only by shard.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kvstore/server/accumulator.h"
#include "kvstore/server/shard.h"
#include "kvstore/server/versioned_array.h"

namespace dtrain::kvstore {

// A message and the pipe for its answer.
struct Request {
  std::shared_ptr<Pipe> peer;
  Header header;
};

void answer_without_values(const Request& to, uint32_t server, Status status, uint64_t version = 0);

// Thread-safe: each call takes the slice's lock.
class ShardSlice {
 public:
  // `reports`: this is the slice for options.on_report, options.on_update and ShardCounts::staleness.
  ShardSlice(const ShardOptions& options, const Slice& slice, size_t slot_count, bool reports);

  [[nodiscard]] const Slice& slice() const { return slice_; }

  // Takes a chunk of a gradient. Returns true if it was the last one; finish_push must then be called, from any thread.
  [[nodiscard]] bool take_push(const Request& request, Pieces payload);
  void finish_push(const Request& request);
  void pull(const Request& request);
  void assign(const Request& request, Pieces payload);
  void pull_state(const Request& request);
  void refresh(const Request& request);
  void regroup(const Request& request, Pieces payload);

  Result<> leave(uint32_t rank);
  void join(uint32_t rank, uint64_t step);
  void overdue(double seconds, std::vector<std::string>& out) const;
  [[nodiscard]] ShardCounts counts() const;

 private:
  using Clock = std::chrono::steady_clock;

  // How much of a gradient has arrived. The machine gets the Push when the gradient is complete.
  struct Receipt {
    uint64_t step = 0;
    uint64_t received = 0;  // elements
  };
  struct Waiting {
    Request request;
    uint64_t wanted;  // the version or step that it waits for
    Status status;    // status of the answer
    Clock::time_point since;
  };
  struct GroupState {
    Accumulator sum;
    LentValues kept;
    uint64_t kept_samples = 0;  // samples that had been applied to the kept weights
  };

  [[nodiscard]] bool is_statistic() const { return slice_.key >= options_.parameters.size(); }
  [[nodiscard]] uint64_t version() const { return machine_ ? machine_->version() : 0; }
  [[nodiscard]] bool fits(const Header& header) const;
  [[nodiscard]] bool is_whole(const Header& header) const;
  void refuse(const Request& request, Status status);
  void answer(const Request& request, Status status, const LentValues& values, uint64_t samples_applied);

  void wait_for(const Request& request, uint64_t wanted, Status status);
  void request_weights(const Request& request, uint64_t step, Status status);
  void feed(const sync::Event& event, uint32_t samples = 0);
  void carry_out(const sync::Event& event, const sync::Effect& effect, uint32_t samples);
  void update(sync::Group group, uint64_t staleness);
  void report(sync::Group group, uint64_t staleness);
  void apply_rule(Accumulator& sum, uint64_t staleness);
  void answer_waiting(const sync::Answer& effect);
  void refuse_waiting(uint32_t rank, uint64_t step);
  // Removes the first element of `waiting_` that `matches` and returns it.
  template <class Matches>
  std::optional<Waiting> take_waiting(Matches matches);

  void assign_values(const Request& request, Pieces payload);
  void finish_assign(const Request& request);
  void make_groups();
  void begin_rounds(uint64_t version);
  [[nodiscard]] std::string describe(const Waiting& waiting) const;

  const ShardOptions& options_;
  const Slice slice_;
  const optim::Multipliers multipliers_;
  sync::Policy policy_;  // the scheme's; for statistics BSP, because their rounds include all workers

  mutable std::mutex mutex_;
  std::optional<sync::Machine> machine_;       // set once the slice has been assigned
  uint64_t assign_count_ = 0;                  // the last completed assignment, as counted by its sender
  Receipt assigning_;                          // the assignment under way
  uint64_t assigning_by_ = 0;                  // the incarnation of its sender
  uint64_t regroup_count_ = 0;                 // the last completed regrouping, as counted by rank 0
  VersionedArray weights_;                     // sums_only: after the first round, the sum of the last round
  uint32_t samples_in_sum_ = 0;                // sums_only: samples in that sum
  std::vector<Buffer<float>> state_;           // by slot
  std::vector<std::span<float>> state_spans_;  // views of state_
  Counters counters_;                          // `samples` only; the machine's version counts updates
  std::vector<GroupState> groups_;
  std::vector<Receipt> receipts_;  // by rank
  std::set<uint32_t> absent_;      // ranks that left
  std::vector<Waiting> waiting_;   // in order of arrival
  std::vector<sync::Effect> effects_;
  std::optional<StalenessRecord> record_;  // only in the slice that reports
  ShardCounts counts_;
};

}  // namespace dtrain::kvstore
