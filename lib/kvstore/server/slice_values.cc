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
      elements_(slice.count),
      is_statistic_(kvstore::is_statistic(options, slice)),
      multipliers_(is_statistic_ ? optim::Multipliers{} : options.parameters[slice.key]),
      order_(options.deterministic || is_statistic_ ? Accumulator::Order::kRank : Accumulator::Order::kArrival),
      weights_(slice.count) {
  for (size_t i = 0; i < slot_count && !is_statistic_; i++) state_.emplace_back(elements_);
  for (Buffer<float>& slot : state_) state_spans_.push_back(slot.span());
}

void SliceValues::set_state(size_t slot, Pieces payload) {
  copy_floats(payload, state_[slot].span());
}

void SliceValues::set_weights(Pieces payload, uint64_t samples) {
  copy_floats(payload, weights_.writable());
  samples_ = samples;
}

void SliceValues::begin_rounds(size_t groups) {
  groups_.clear();
  for (size_t i = 0; i < groups; i++) groups_.push_back({Accumulator(elements_, order_), {}});
}

void SliceValues::add(uint32_t group, uint32_t rank, uint32_t samples, Pieces gradient) {
  groups_[group].sum.add(rank, samples, gradient);
}

void SliceValues::update(uint32_t group, uint64_t staleness) {
  Accumulator& sum = groups_[group].sum;
  const uint64_t samples = sum.samples();
  if (is_statistic_) {
    sum.mean(weights_.writable());
  } else if (options_.sums_only) {
    const std::span<const float> total = sum.total();
    std::copy(total.begin(), total.end(), weights_.writable().begin());
    samples_in_sum_ = static_cast<uint32_t>(samples);
  } else {
    apply_rule(sum, staleness);
  }
  samples_ += samples;
  sum.reset();
}

void SliceValues::apply_rule(Accumulator& sum, uint64_t staleness) {
  const double weight = weight_of(options_.weight, staleness);
  const optim::UpdateStep step = update_step(options_.rule, multipliers_, samples_, sum.samples(), weight);
  optim::update(options_.rule.optimizer, step, weights_.writable(), sum.total(), state_spans_);
}

void SliceValues::keep(uint32_t group) {
  groups_[group].kept = {weights_.lend(), samples_};
}

void SliceValues::release_snapshots() {
  for (Group& group : groups_) group.kept = {};
}

}  // namespace dtrain::kvstore
