#include "kvstore/worker/updater.h"

#include <algorithm>
#include <chrono>

#include "kvstore/worker/training_state.h"
#include "tensor/buckets.h"

namespace dtrain::kvstore {

Result<std::unique_ptr<Updater>> Updater::create(UpdaterOptions options,
                                                 std::unique_ptr<optim::ArrayOptimizer> optimizer) {
  DT_TRY(std::vector<std::string> slots, optim::state_slots(options.rule.optimizer));
  return std::unique_ptr<Updater>(new Updater(std::move(options), std::move(slots), std::move(optimizer)));
}

Result<std::unique_ptr<Updater>> Updater::create(UpdaterOptions options, int threads) {
  DT_TRY(std::unique_ptr<optim::ArrayOptimizer> optimizer, optim::make_host_optimizer(options.rule.optimizer, threads));
  return create(std::move(options), std::move(optimizer));
}

Updater::Updater(UpdaterOptions options, std::vector<std::string> slots,
                 std::unique_ptr<optim::ArrayOptimizer> optimizer)
    : options_(std::move(options)), slots_(std::move(slots)), optimizer_(std::move(optimizer)) {}

size_t Updater::end_of(size_t bucket) const {
  return bucket_end(options_.bucket_begin, bucket, view_.parameters.size());
}

template <class Visit>
Result<> Updater::visit_state(const Visit& visit) const {
  for (size_t bucket = 0; bucket < pieces_.size(); bucket++) {
    for (size_t array = 0; array < pieces_[bucket].size(); array++) {
      for (size_t slot = 0; slot < slots_.size(); slot++) {
        DT_TRY_VOID(visit(pieces_[bucket][array], slot, optimizer_->state(bucket, array, slot)));
      }
    }
  }
  return {};
}

Result<> Updater::bind(const ParameterView& view, std::span<const FlatInterval> owned, const TrainingState& state) {
  view_ = view;
  const size_t buckets = options_.bucket_begin.size();
  pieces_.clear();
  counters_.assign(buckets, {.samples = state.samples, .updates = state.updates, .rate_factor = state.rate_factor});
  undecided_.assign(buckets, {});
  std::vector<std::vector<optim::LearnedArray>> groups(buckets);
  for (size_t bucket = 0; bucket < buckets; bucket++) {
    pieces_.push_back(pieces_of(bucket, owned));
    for (const Piece& piece : pieces_[bucket]) groups[bucket].push_back(array_of(piece));
  }
  DT_TRY(const SlotSpans slots, match_state(state, view_, slots_));
  optimizer_->bind(groups);
  if (slots.empty()) return {};
  return visit_state([&](const Piece& piece, size_t slot, std::span<float> memory) {
    return write_array(view_.device, slots[piece.parameter][slot].subspan(piece.begin, piece.count), memory);
  });
}

std::vector<Updater::Piece> Updater::pieces_of(size_t bucket, std::span<const FlatInterval> owned) const {
  std::vector<Piece> pieces;
  const size_t first = options_.bucket_begin[bucket];
  if (owned.empty()) {
    for (size_t p = first; p < end_of(bucket); p++) pieces.push_back({p, 0, view_.parameters[p].weight.size()});
    return pieces;
  }
  const size_t owned_begin = owned[bucket].begin;
  const size_t owned_end = owned_begin + owned[bucket].count;
  const size_t origin = flat_interval(view_, first, end_of(bucket)).begin;
  for (size_t p = first; p < end_of(bucket); p++) {
    const size_t begin = flat_interval(view_, p, p + 1).begin - origin;
    const size_t end = begin + view_.parameters[p].weight.size();
    if (begin >= owned_end || end <= owned_begin) continue;
    const size_t from = std::max(begin, owned_begin);
    DT_CHECK(!optim::uses_norms(options_.rule.optimizer) || (from == begin && end <= owned_end),
             "only a part of '{}' is updated here, but {} needs the norm of the whole array", view_.parameters[p].name,
             options_.rule.optimizer.name);
    pieces.push_back({p, from - begin, std::min(end, owned_end) - from});
  }
  return pieces;
}

optim::LearnedArray Updater::array_of(const Piece& piece) const {
  const ParameterSpan& parameter = view_.parameters[piece.parameter];
  return {.multipliers = optim::multipliers_of(parameter.kind, parameter.rule, options_.rule.optimizer),
          .weight = parameter.weight.subspan(piece.begin, piece.count),
          .gradient = parameter.gradient.subspan(piece.begin, piece.count),
          .part = {piece.parameter, piece.begin}};
}

void Updater::update(size_t bucket, uint32_t samples) {
  Counters& decided = counters_[bucket];
  Undecided& undecided = undecided_[bucket];
  DT_CHECK(undecided.updates <= 1, "{} updates are not decided", undecided.updates);
  const auto begin = std::chrono::steady_clock::now();
  if (samples > 0) {
    Counters counters = decided;
    counters.samples += undecided.samples;
    counters.updates += undecided.updates;
    optimizer_->update(bucket, update_step(options_.rule, {}, counters, samples),
                       update_step(options_.rule, {}, decided, samples));
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  seconds_.store(seconds() + spent.count(), std::memory_order_relaxed);
  if (decides_) {
    undecided.samples += samples;
    undecided.updates++;
  } else {
    decided.samples += samples;
    decided.updates++;
  }
}

void Updater::settle(uint32_t samples, bool counts) {
  for (size_t bucket = 0; bucket < counters_.size(); bucket++) {
    undecided_[bucket].samples -= samples;
    undecided_[bucket].updates--;
    if (!counts) continue;
    counters_[bucket].samples += samples;
    counters_[bucket].updates++;
  }
}

void Updater::set_rate_factor(double factor) {
  for (Counters& counters : counters_) counters.rate_factor = factor;
}

Result<> Updater::read_state(TrainingState& state) const {
  make_slots(state, view_, slots_);
  state.samples = counters_.front().samples;
  state.updates = counters_.front().updates;
  state.rate_factor = counters_.front().rate_factor;
  return visit_state([&](const Piece& piece, size_t slot, std::span<float> memory) {
    std::vector<float>& values = state.slots[piece.parameter * slots_.size() + slot].values;
    return read_array(view_.device, memory, std::span(values).subspan(piece.begin, piece.count));
  });
}

void Updater::for_each_slot(const std::function<void(std::span<float>)>& visit) {
  for (size_t bucket = 0; bucket < pieces_.size(); bucket++) for_each_slot(bucket, visit);
}

void Updater::for_each_slot(size_t bucket, const std::function<void(std::span<float>)>& visit) {
  for (size_t array = 0; array < pieces_[bucket].size(); array++) {
    for (size_t slot = 0; slot < slots_.size(); slot++) visit(optimizer_->state(bucket, array, slot));
  }
}

}  // namespace dtrain::kvstore
