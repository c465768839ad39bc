#include "kvstore/server/slice_values.h"

#include <algorithm>

namespace dtrain::kvstore {
namespace {

bool is_statistic(const ShardOptions& options, const Slice& slice) {
  return slice.key >= options.parameters.size();
}

}  // namespace

SliceValues::SliceValues(const ShardOptions& options, const Slice& slice, size_t slot_count)
    : options_(options),
      buffers_(slice.count),
      part_{slice.key, slice.begin},
      is_statistic_(kvstore::is_statistic(options, slice)),
      multipliers_(is_statistic_ ? optim::Multipliers{} : options.parameters[slice.key]),
      order_(options.deterministic || is_statistic_ ? Accumulator::Order::kRank : Accumulator::Order::kArrival),
      weights_(slice.count) {
  for (size_t i = 0; i < slot_count && !is_statistic_; i++) state_.emplace_back(elements());
}

void SliceValues::set_state(size_t slot, Pieces payload) {
  copy_floats(payload, state_[slot].writable());
}

void SliceValues::clear_state() {
  for (VersionedArray& slot : state_) std::ranges::fill(slot.writable(), 0.0F);
}

void SliceValues::set_weights(Pieces payload, const Counters& counters) {
  copy_floats(payload, weights_.writable());
  counters_ = counters;
  next_rate_.reset();
}

SnapshotPart SliceValues::part() const {
  SnapshotPart part{.counters = counters_, .next_rate = next_rate_, .weights = weights_.lend()};
  for (const VersionedArray& slot : state_) part.states.push_back(slot.lend());
  return part;
}

void SliceValues::restore(const SnapshotPart& part) {
  DT_CHECK(part.weights.values.size() == elements() && part.states.size() == slot_count(), "a part of another slice");
  std::ranges::copy(part.weights.values, weights_.writable().begin());
  for (size_t i = 0; i < state_.size(); i++) {
    std::ranges::copy(part.states[i].values, state_[i].writable().begin());
  }
  counters_ = part.counters;
  next_rate_ = part.next_rate;
}

void SliceValues::advance(const Counters& counters) {
  counters_ = {.samples = std::max(counters.samples, counters_.samples),
               .updates = std::max(counters.updates, counters_.updates),
               .rate_factor = counters.rate_factor};
  next_rate_.reset();
}

void SliceValues::begin_rounds(size_t groups) {
  groups_.clear();
  buffers_.clear();
  for (size_t i = 0; i < groups; i++) groups_.push_back({.sum = Accumulator(buffers_, order_)});
}

void SliceValues::add(uint32_t group, uint32_t rank, uint32_t samples, Pieces gradient) {
  groups_[group].sum.add(rank, samples, gradient);
}

SliceValues::Outcome SliceValues::update(uint32_t group, uint64_t staleness) {
  Group& of = groups_[group];
  const Outcome outcome = apply(of, staleness);
  of.samples_in_update = outcome == Outcome::kApplied ? static_cast<uint32_t>(of.sum.samples()) : 0;
  of.is_refused = of.is_refused || outcome == Outcome::kRefused;
  if (outcome == Outcome::kApplied) counters_.samples += of.sum.samples();
  counters_.updates++;
  of.sum.reset();
  return outcome;
}

SliceValues::Outcome SliceValues::apply(Group& group, uint64_t staleness) {
  if (is_statistic_) {
    group.sum.mean(weights_.writable());
    return Outcome::kApplied;
  }
  // With backup workers, the slices of one step may hold gradients of different workers. A worker that leaves its step
  // out (see Outcome::kLeftOut) is then treated like one that comes too late, and the other gradients count.
  const bool all_leave_out = options_.policy.backup == 0 || group.sum.samples() == 0;
  if (group.sum.left_out_by() && all_leave_out) {
    culprit_ = *group.sum.left_out_by();
    return Outcome::kLeftOut;
  }
  const std::span<const float> total = group.sum.total();
  if (group.sum.spoiled_by()) {
    culprit_ = *group.sum.spoiled_by();
    return Outcome::kRefused;
  }
  if (options_.sums_only) {
    std::copy(total.begin(), total.end(), weights_.writable().begin());
  } else {
    apply_rule(group.sum, total, staleness);
  }
  return Outcome::kApplied;
}

void SliceValues::apply_rule(const Accumulator& sum, std::span<const float> total, uint64_t staleness) {
  if (next_rate_ && counters_.samples >= next_rate_->from_samples) {
    counters_.rate_factor = next_rate_->factor;
    next_rate_.reset();
  }
  const double weight = weight_of(options_.weight, staleness);
  optim::UpdateStep step = update_step(options_.rule, multipliers_, counters_, sum.samples(), weight);
  step.part = part_;
  state_spans_.clear();
  for (VersionedArray& slot : state_) state_spans_.push_back(slot.writable());
  optim::update(options_.rule.optimizer, step, weights_.writable(), total, state_spans_);
}

void SliceValues::keep(uint32_t group) {
  groups_[group].kept = {weights_.lend(), counters_.samples, groups_[group].samples_in_update, version()};
}

}  // namespace dtrain::kvstore
