#include "kvstore/updater.h"

#include <algorithm>

#include "kvstore/training_state.h"
#include "tensor/buckets.h"

namespace dtrain::kvstore {
namespace {

// 256 KiB of weights: large enough to be worth a thread, small enough to share an array out evenly.
constexpr size_t kTaskElements = 1 << 16;

}  // namespace

Result<std::unique_ptr<Updater>> Updater::create(UpdaterOptions options) {
  DT_TRY(std::vector<std::string> slots, optim::state_slots(options.rule.optimizer));
  return std::unique_ptr<Updater>(new Updater(std::move(options), std::move(slots)));
}

Updater::Updater(UpdaterOptions options, std::vector<std::string> slots)
    : options_(std::move(options)), slots_(std::move(slots)), pool_(std::max(options_.threads, 1), "update") {}

size_t Updater::end_of(size_t bucket) const {
  return bucket_end(options_.bucket_begin, bucket, view_.parameters.size());
}

Result<> Updater::bind(const ParameterView& view, std::span<const FlatInterval> owned, const TrainingState& state) {
  view_ = view;
  const size_t buckets = options_.bucket_begin.size();
  pieces_.clear();
  tasks_.assign(buckets, {});
  counters_.assign(buckets, {.samples = state.samples, .updates = state.updates});
  for (size_t bucket = 0; bucket < buckets; bucket++) own(bucket, owned);
  DT_TRY(const SlotSpans slots, match_state(state, view_, slots_));
  if (slots.empty()) return {};
  for (Piece& piece : pieces_) {
    for (size_t slot = 0; slot < slots_.size(); slot++) {
      const std::span<const float> values = slots[piece.parameter][slot].subspan(piece.begin, piece.count);
      std::copy(values.begin(), values.end(), piece.slots[slot].data());
    }
  }
  return {};
}

void Updater::own(size_t bucket, std::span<const FlatInterval> owned) {
  const size_t first = options_.bucket_begin[bucket];
  if (owned.empty()) {
    for (size_t p = first; p < end_of(bucket); p++) add_piece(bucket, p, 0, view_.parameters[p].weight.size());
    return;
  }
  const size_t owned_begin = owned[bucket].begin;
  const size_t owned_end = owned_begin + owned[bucket].count;
  const size_t origin = flat_interval(view_, first, end_of(bucket)).begin;
  for (size_t p = first; p < end_of(bucket); p++) {
    const size_t begin = flat_interval(view_, p, p + 1).begin - origin;
    const size_t end = begin + view_.parameters[p].weight.size();
    if (begin >= owned_end || end <= owned_begin) continue;
    const size_t from = std::max(begin, owned_begin);
    add_piece(bucket, p, from - begin, std::min(end, owned_end) - from);
  }
}

void Updater::add_piece(size_t bucket, size_t parameter, size_t begin, size_t count) {
  const ParameterSpan& array = view_.parameters[parameter];
  pieces_.push_back({.parameter = parameter, .begin = begin, .count = count, .slots = {}});
  Piece& piece = pieces_.back();
  for (size_t slot = 0; slot < slots_.size(); slot++) piece.slots.emplace_back(count);
  for (size_t at = 0; at < count; at += kTaskElements) {
    const size_t size = std::min(kTaskElements, count - at);
    tasks_[bucket].push_back({.multipliers = optim::multipliers_of(array.name),
                              .weight = array.weight.subspan(begin + at, size),
                              .gradient = array.gradient.subspan(begin + at, size),
                              .state = {}});
    for (Buffer<float>& slot : piece.slots) tasks_[bucket].back().state.push_back(slot.part(at, size));
  }
}

void Updater::update(size_t bucket, uint32_t samples) {
  flush_denormals();
  Counters& counters = counters_[bucket];
  const std::vector<Task>& tasks = tasks_[bucket];
  const auto update = [&](int64_t i) {
    const Task& task = tasks[static_cast<size_t>(i)];
    const optim::UpdateStep step = update_step(options_.rule, task.multipliers, counters.samples, samples);
    optim::update(options_.rule.optimizer, step, task.weight, task.gradient, task.state);
  };
  pool_.parallel_for(static_cast<int64_t>(tasks.size()), std::ref(update));  // a reference: no memory is taken
  counters.samples += samples;
  counters.updates++;
}

TrainingState Updater::empty_state() const {
  TrainingState state;
  for (const ParameterSpan& parameter : view_.parameters) {
    for (const std::string& slot : slots_) {
      state.slots.push_back({slot_name(parameter, slot), parameter.shape, {}});
      state.slots.back().values.resize(parameter.weight.size());
    }
  }
  return state;
}

void Updater::read_state(TrainingState& state) const {
  state.samples = counters_.front().samples;
  state.updates = counters_.front().updates;
  for (const Piece& piece : pieces_) {
    for (size_t slot = 0; slot < slots_.size(); slot++) {
      const std::span<const float> values = piece.slots[slot].span();
      NamedArray& array = state.slots[piece.parameter * slots_.size() + slot];
      std::copy(values.begin(), values.end(), array.values.begin() + static_cast<ptrdiff_t>(piece.begin));
    }
  }
}

void Updater::for_each_slot(const std::function<void(std::span<float>)>& visit) {
  for (Piece& piece : pieces_) {
    for (Buffer<float>& slot : piece.slots) visit(slot.span());
  }
}

}  // namespace dtrain::kvstore
