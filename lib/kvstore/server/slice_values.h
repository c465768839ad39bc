// The values of one slice on its server: the weights (or a statistic), the optimizer state, and for each group the sum
// of its open round and the snapshot that its answers are sent from. This class knows nothing about messages, waits or
// schemes; ShardSlice calls it. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kvstore/counters.h"
#include "kvstore/server/accumulator.h"
#include "kvstore/server/gradient_buffers.h"
#include "kvstore/server/shard.h"
#include "kvstore/server/snapshot_file.h"
#include "kvstore/server/versioned_array.h"

namespace dtrain::kvstore {

class SliceValues {
 public:
  // The content of an answer.
  struct Snapshot {
    LentValues values;
    uint64_t samples_applied = 0;    // samples applied to these values
    uint32_t samples_in_update = 0;  // samples in the group's last update; 0: its outcome was kLeftOut
    uint64_t version = 0;            // version of the slice with these values
  };
  // The result of a round.
  enum class Outcome {
    kApplied,
    kLeftOut,  // a worker has left the step out (see header.h), so all do: nothing has changed
    kRefused,  // the sum has a value that is infinite or NaN: nothing has changed, and the group gets no more values
  };

  // `options` must outlive the object.
  SliceValues(const ShardOptions& options, const Slice& slice, size_t slot_count);
  SliceValues(const SliceValues&) = delete;
  SliceValues& operator=(const SliceValues&) = delete;

  [[nodiscard]] bool is_statistic() const { return is_statistic_; }
  [[nodiscard]] size_t elements() const { return buffers_.elements(); }
  [[nodiscard]] size_t slot_count() const { return state_.size(); }
  [[nodiscard]] uint64_t samples() const { return counters_.samples; }  // samples applied since the start of the job
  [[nodiscard]] uint64_t version() const { return counters_.updates; }  // version of the slice with these values

  // The payload must hold exactly elements() floats, and the slot must be below slot_count().
  void set_state(size_t slot, Pieces payload);
  void clear_state();  // sets it to zeros
  void set_weights(Pieces payload, const Counters& counters);
  void set_rate(const RateChange& change) { next_rate_ = change; }
  // The slice counts as having at least as many updates and samples, and has this factor of the learning rate.
  void advance(const Counters& counters);
  [[nodiscard]] std::span<const float> state(size_t slot) const { return state_[slot].values(); }

  // The values, lent, and the counters, without the members that are not of this class: `id` and `group_of`.
  [[nodiscard]] SnapshotPart part() const;
  // Takes the values and counters of the part, which must have as many of them.
  void restore(const SnapshotPart& part);

  // Begins rounds of `groups` groups. Sums of unfinished rounds are discarded.
  void begin_rounds(size_t groups);
  // Adds a gradient of exactly elements() floats to the group's round.
  void add(uint32_t group, uint32_t rank, uint32_t samples, Pieces gradient);
  // Applies the round's sum to the weights, unless that would be wrong (see Outcome), and begins the group's next
  // round.
  Outcome update(uint32_t group, uint64_t staleness);
  // The worker that made update() leave out or refuse the last round.
  [[nodiscard]] uint32_t culprit() const { return culprit_; }

  void keep(uint32_t group);  // takes the snapshot from which the group's answers are sent
  [[nodiscard]] const Snapshot& kept(uint32_t group) const { return groups_[group].kept; }
  [[nodiscard]] bool is_refused(uint32_t group) const { return groups_[group].is_refused; }
  // Releases the group's snapshot, because the next update must copy the weights while one is held.
  void release(uint32_t group) { groups_[group].kept = {}; }
  // The number of buffers for gradients that the slice has.
  [[nodiscard]] size_t gradient_buffers() const { return buffers_.count(); }

 private:
  struct Group {
    Accumulator sum;
    Snapshot kept = {};
    uint32_t samples_in_update = 0;
    bool is_refused = false;
  };
  Outcome apply(Group& group, uint64_t staleness);
  void apply_rule(const Accumulator& sum, std::span<const float> total, uint64_t staleness);

  const ShardOptions& options_;
  GradientBuffers buffers_;  // of all groups' rounds
  const optim::ArrayPart part_;
  const bool is_statistic_;
  const optim::Multipliers multipliers_;
  const Accumulator::Order order_;
  VersionedArray weights_;  // the weights; with sums_only, after the first round: the sum of the last round's gradients
  Counters counters_;       // a round that was left out counts as an update here, as it does in the slice's version
  // A change of the learning rate that takes effect once its from_samples samples have been applied.
  std::optional<RateChange> next_rate_;
  uint32_t culprit_ = 0;
  std::vector<VersionedArray> state_;          // the optimizer state, indexed by slot
  std::vector<std::span<float>> state_spans_;  // views of state_ for one update; a member only to reuse its memory
  std::vector<Group> groups_;
};

}  // namespace dtrain::kvstore
