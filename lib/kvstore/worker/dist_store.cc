#include "kvstore/worker/dist_store.h"

#include <algorithm>
#include <optional>

namespace dtrain::kvstore {
namespace {

Header data_request(Kind kind, uint64_t step, uint32_t samples = 0) {
  Header header;
  header.kind = kind;
  header.step = step;
  header.samples = samples;
  return header;
}

template <class What>
ControlRequest control_request(const What& what) {
  ControlRequest request;
  request.what = what;
  return request;
}

SliceRequestsOptions request_options(const DistStoreOptions& options) {
  return {.rank = options.rank,
          .incarnation = options.incarnation,
          .placement = options.placement,
          .groups = options.bucket_begin.size() + 1,
          .timeline = options.timeline,
          .log = options.log};
}

}  // namespace

Result<std::unique_ptr<DistStore>> DistStore::create(DistStoreOptions options, Waits& waits) {
  DT_TRY(std::vector<std::string> slots, optim::state_slots(options.rule.optimizer));
  DT_CHECK(!options.bucket_begin.empty() && options.incarnation != 0, "options of a store are incomplete");
  std::unique_ptr<Updater> updater;
  if (options.sums_only) {
    DT_TRY(updater, Updater::create({options.rule, options.bucket_begin}, options.update_threads));
  }
  return std::unique_ptr<DistStore>(new DistStore(std::move(options), std::move(slots), std::move(updater), waits));
}

DistStore::DistStore(DistStoreOptions options, std::vector<std::string> slots, std::unique_ptr<Updater> updater,
                     Waits& waits)
    : options_(std::move(options)),
      slots_(std::move(slots)),
      updater_(std::move(updater)),
      sum_is_new_(bucket_count()),
      requests_(request_options(options_), waits) {}

// The following functions start the store: they bind the view's memory and fill it.

size_t DistStore::bucket_of(uint32_t key) const {
  if (key >= view_.parameters.size()) return bucket_count();
  const auto& begins = options_.bucket_begin;
  return static_cast<size_t>(std::upper_bound(begins.begin(), begins.end(), size_t{key}) - begins.begin()) - 1;
}

Result<> DistStore::bind(const ParameterView& view) {
  view_ = view;
  slices_.clear();
  if (updater_) {
    sums_.clear();
    for (const ParameterSpan& parameter : view.parameters) sums_.emplace_back(parameter.weight.size());
  }
  for (const Slice& slice : options_.placement) {
    const size_t parameters = view.parameters.size();
    if (slice.key >= parameters + view.statistics.size()) {
      return fail(Code::kUsage, "the placement has key {}, but the network has only {} keys", slice.key,
                  parameters + view.statistics.size());
    }
    const ParameterSpan& array =
        slice.key < parameters ? view.parameters[slice.key] : view.statistics[slice.key - parameters];
    if (slice.begin + slice.count > array.weight.size()) {
      return fail(Code::kUsage, "the placement has {} elements of '{}', but this array has {}",
                  slice.begin + slice.count, array.name, array.weight.size());
    }
    WorkerSlice own;
    own.value = array.weight.subspan(slice.begin, slice.count);
    own.push_answer = own.value;
    own.bucket = bucket_of(slice.key);
    if (is_parameter(own)) {
      own.gradient = array.gradient.subspan(slice.begin, slice.count);
      if (updater_) own.push_answer = sums_[slice.key].part(slice.begin, slice.count);
    }
    slices_.push_back(own);
  }
  slices_of_.assign(bucket_count() + 1, {});
  for (size_t i = 0; i < slices_.size(); i++) slices_of_[slices_[i].bucket].push_back(i);
  return {};
}

Result<> DistStore::begin(std::span<const ParameterView> devices, const TrainingState& state) {
  DT_CHECK(requests_.is_attached(), "no pipes were attached");
  DT_CHECK(devices.size() == 1, "there are {} devices, but this store can push and pull for only one", devices.size());
  DT_TRY_VOID(bind(devices.front()));
  next_step_ = state.updates;
  first_samples_ = state.samples;
  rate_factor_ = state.rate_factor;
  return {};
}

Result<> DistStore::initialize(std::span<const ParameterView> devices, const TrainingState& state) {
  DT_TRY_VOID(begin(devices, state));
  if (options_.rank != 0) return fetch_all();
  DT_TRY_VOID(assign(state));
  return updater_ ? begin_updates(state) : Result<>{};
}

Result<> DistStore::take_over(std::span<const ParameterView> devices, const TrainingState& state) {
  DT_TRY_VOID(begin(devices, state));
  DT_TRY_VOID(fetch_all());
  continue_rounds();
  return {};
}

// Takes the values that another worker has sent to the servers (assign()). No worker has pushed since.
Result<> DistStore::fetch_all() {
  DT_TRY_VOID(pull(Kind::kPull, &DistStore::any, 0));
  if (!updater_) return {};
  TrainingState sent;
  DT_TRY_VOID(fetch_state(sent));
  return begin_updates(sent);
}

// Takes the numbers of the next rounds from the answers of all slices.
void DistStore::continue_rounds() {
  std::optional<uint64_t> open;
  for (size_t i = 0; i < slices_.size(); i++) {
    const uint64_t step = requests_.answer(i).step;
    if (is_statistic(slices_[i])) share_count_ = step;
    if (is_parameter(slices_[i])) open = std::min(open.value_or(step), step);
  }
  next_step_ = open.value_or(next_step_);
}

// If the servers only sum, they get the weights and the state from this worker.
Result<> DistStore::hand_over(const TrainingState* back) {
  if (back != nullptr) return assign(*back);
  if (!updater_) return {};
  TrainingState state;
  DT_TRY_VOID(read_state(state));
  state.updates = next_step_;
  return assign(state);
}

void DistStore::forget_requests() {
  requests_.forget();
  sum_is_new_.assign(sum_is_new_.size(), false);
  pushed_samples_ = 0;
}

Result<> DistStore::give_statistics() {
  const AssignValues assign{.counters = {.updates = share_count_}};
  return ask("acknowledgement", &DistStore::is_statistic,
             [&](size_t i) { return SliceRequest{.head = control_request(assign), .values = slices_[i].value}; });
}

Result<uint64_t> DistStore::align(const Alignment& to) {
  DT_TRY_VOID(ask("counters", &DistStore::is_parameter,
                  [&](size_t) { return SliceRequest{.head = control_request(PullCounters{})}; }));
  Counters newest{.rate_factor = rate_factor_};
  uint64_t oldest = UINT64_MAX;
  for (size_t i = 0; i < slices_.size(); i++) {
    if (!is_parameter(slices_[i])) continue;
    const Counters counters = requests_.answer(i).counters;
    newest.samples = std::max(newest.samples, counters.samples);
    newest.updates = std::max(newest.updates, counters.updates);
    oldest = std::min(oldest, counters.updates);
  }
  const Regroup regroup{.group_of = to.group_of, .alignment = Regroup::Alignment{newest, to.leads}};
  DT_TRY_VOID(ask("the same step on all servers", &DistStore::is_parameter,
                  [&](size_t) { return SliceRequest{.head = control_request(regroup)}; }));
  DT_TRY_VOID(give_statistics());
  return newest.updates - std::min(oldest, newest.updates);
}

Result<> DistStore::begin_updates(const TrainingState& state) {
  ParameterView of_sums = view_;
  for (size_t p = 0; p < sums_.size(); p++) of_sums.parameters[p].gradient = sums_[p].span();
  of_sums.all_gradients = {};
  return updater_->bind(of_sums, {}, state);
}

template <class RequestOf>
Result<> DistStore::ask(const char* what, Wanted wanted, const RequestOf& request_of) {
  for (size_t i = 0; i < slices_.size(); i++) {
    if (!(this->*wanted)(slices_[i])) continue;
    SliceRequest request = request_of(i);
    request.group = slices_[i].bucket;
    request.by_caller = true;
    DT_TRY_VOID(requests_.send(i, std::move(request)));
  }
  return requests_.wait(what, 0, bucket_count() + 1);
}

Result<> DistStore::assign(const TrainingState& state) {
  const Counters counters{.samples = state.samples, .updates = state.updates, .rate_factor = state.rate_factor};
  DT_TRY(const SlotSpans slots, match_state(state, view_, slots_));
  return ask("acknowledgement", &DistStore::any, [&](size_t i) {
    const WorkerSlice& own = slices_[i];
    const AssignValues statistic{.counters = {.updates = share_count_}};
    if (is_statistic(own)) return SliceRequest{.head = control_request(statistic), .values = own.value};
    const auto states = static_cast<uint32_t>(slots.empty() ? 0 : slots_.size());
    SliceRequest request{.head = control_request(AssignValues{counters, states}), .values = own.value};
    if (states == 0) return request;
    const Slice& slice = options_.placement[i];
    for (const std::span<const float> values : slots[slice.key]) {
      request.state.push_back(values.subspan(slice.begin, slice.count));
    }
    return request;
  });
}

Result<> DistStore::pull(Kind kind, Wanted wanted, uint64_t step) {
  return ask("value", wanted,
             [&](size_t i) { return SliceRequest{.head = data_request(kind, step), .into = slices_[i].value}; });
}

// The following functions make a step.

Result<uint64_t> DistStore::next_step() {
  if (!options_.skips_steps) return next_step_;
  DT_TRY_VOID(wait_for_weights());
  // The slices may have different open rounds. For a slice that is a round ahead, the worker's gradient of the earlier
  // round is late.
  std::optional<uint64_t> open;
  for (size_t i = 0; i < slices_.size(); i++) {
    if (!is_parameter(slices_[i])) continue;
    const uint64_t step = requests_.answer(i).step;
    open = std::min(open.value_or(step), step);
  }
  return std::max(next_step_, open.value_or(0));
}

Result<uint64_t> DistStore::samples_applied() {
  DT_TRY_VOID(wait_for_weights(0));
  return slices_.empty() ? first_samples_ : requests_.answer(0).samples_applied.value_or(first_samples_);
}

Result<> DistStore::gradient_ready(DeviceBucket at, uint64_t step, uint32_t samples) {
  const size_t bucket = at.bucket;
  sum_is_new_[bucket] = updater_ != nullptr;
  next_step_ = step + 1;
  pushed_samples_ = samples;
  for (const size_t i : slices_of_[bucket]) {
    const WorkerSlice& own = slices_[i];
    DT_TRY_VOID(requests_.send(i, {.head = data_request(Kind::kPush, step, samples),
                                   .values = own.gradient,
                                   .into = own.push_answer,
                                   .group = bucket,
                                   .by_caller = bucket == 0}));
  }
  return {};
}

Result<> DistStore::wait_for_weights(DeviceBucket at) {
  const size_t bucket = at.bucket;
  DT_TRY_VOID(requests_.wait(updater_ ? "gradient sums" : "weights", bucket, bucket + 1));
  if (bucket == 0) log_left_out();
  return sum_is_new_[bucket] ? update_from_sum(bucket) : Result<>{};
}

// Logs that the last step was left out (a worker's loss or gradients were not finite). One line for each step is
// enough, because the answers for all slices agree.
void DistStore::log_left_out() {
  const uint32_t pushed = std::exchange(pushed_samples_, 0);
  if (pushed == 0 || slices_.empty() || !is_parameter(slices_[0]) || requests_.answer(0).samples > 0) return;
  options_.log.info("all workers skip step {}, because the gradient of another worker is not finite", next_step_ - 1);
}

Result<> DistStore::update_from_sum(size_t bucket) {
  sum_is_new_[bucket] = false;
  if (slices_of_[bucket].empty()) return {};
  updater_->update(bucket, equalize_samples(bucket));
  return {};
}

// The sums of all slices include the same workers, unless one was lost in the middle of the step. Then scales the sums
// as if all had the samples of the bucket's first slice. Returns that number; 0 if a worker has left the step out. All
// workers get the same answers, and so do the same here.
uint32_t DistStore::equalize_samples(size_t bucket) {
  const uint32_t samples = requests_.answer(slices_of_[bucket].front()).samples;
  for (const size_t i : slices_of_[bucket]) {
    const uint32_t own = requests_.answer(i).samples;
    if (own == samples) continue;
    if (own == 0 || samples == 0) return 0;
    const float factor = static_cast<float>(samples) / static_cast<float>(own);
    for (float& value : slices_[i].push_answer) value *= factor;
  }
  return samples;
}

// The following functions are called between steps.

Result<> DistStore::wait_for_weights() {
  for (size_t bucket = 0; bucket < bucket_count(); bucket++) DT_TRY_VOID(wait_for_weights(bucket));
  return {};
}

// Averages the statistics in one round of all workers, regardless of the scheme.
Result<> DistStore::share_statistics(uint64_t samples) {
  const uint64_t round = share_count_++;
  const auto weight = static_cast<uint32_t>(std::min<uint64_t>(samples, UINT32_MAX));
  return ask("mean of the statistics", &DistStore::is_statistic, [&](size_t i) {
    const std::span<float> value = slices_[i].value;
    return SliceRequest{.head = data_request(Kind::kPush, round, weight), .values = value, .into = value};
  });
}

Result<> DistStore::refresh() {
  if (!options_.workers_differ) return {};
  return pull(Kind::kRefresh, &DistStore::is_parameter, next_step_);
}

Result<uint64_t> DistStore::regroup(std::span<const uint32_t> group_of) {
  const Regroup groups{{group_of.begin(), group_of.end()}};
  const Result<> told = ask("new groups", &DistStore::is_parameter,
                            [&](size_t) { return SliceRequest{.head = control_request(groups)}; });
  if (!told) return is_broken() ? Result<uint64_t>(0) : tl::unexpected(told.error());
  std::optional<uint64_t> step;
  for (size_t i = 0; i < slices_.size(); i++) {
    if (!is_parameter(slices_[i])) continue;
    const uint64_t updates = requests_.answer(i).counters.updates;
    if (updates != step.value_or(updates)) {
      const Slice& slice = options_.placement[i];
      return fail(Code::kInternal, "new groups: key {} slice {} has {} updates, but other slices have {}", slice.key,
                  slice.part, updates, *step);
    }
    step = updates;
  }
  return step.value_or(next_step_);
}

Result<> DistStore::set_rate(const RateChange& change, bool for_servers) {
  rate_factor_ = change.factor;
  if (updater_) {
    updater_->set_rate_factor(change.factor);
    return {};
  }
  if (!for_servers) return {};
  const Result<> told = ask("new learning rate", &DistStore::is_parameter,
                            [&](size_t) { return SliceRequest{.head = control_request(SetRate{change})}; });
  return is_broken() ? Result<>() : told;  // the servers get it, or an earlier one, when all are there again
}

Result<> DistStore::read_state(TrainingState& state) {
  DT_TRY_VOID(wait_for_weights());
  return updater_ ? updater_->read_state(state) : fetch_state(state);
}

Result<> DistStore::fetch_state(TrainingState& state) {
  make_slots(state, view_, slots_);
  for (size_t slot = 0; slot < slots_.size(); slot++) DT_TRY_VOID(fetch_slot(slot, state));
  DT_TRY(const Counters counters, fetch_counters());
  state.samples = counters.samples;
  state.updates = counters.updates;
  state.rate_factor = rate_factor_;
  return {};
}

Result<> DistStore::fetch_slot(size_t slot, TrainingState& state) {
  const PullState pull{.slot = static_cast<uint32_t>(slot)};
  return ask("optimizer state", &DistStore::is_parameter, [&](size_t i) {
    const Slice& slice = options_.placement[i];
    const std::span<float> array = state.slots[slice.key * slots_.size() + slot].values;
    return SliceRequest{.head = control_request(pull), .into = array.subspan(slice.begin, slice.count)};
  });
}

Result<Counters> DistStore::fetch_counters() {
  const auto own = std::ranges::find_if(slices_, [&](const WorkerSlice& s) { return is_parameter(s); });
  if (own == slices_.end()) return Counters{};
  const auto i = static_cast<size_t>(own - slices_.begin());
  DT_TRY_VOID(requests_.send(i, {.head = control_request(PullCounters{}), .group = own->bucket, .by_caller = true}));
  DT_TRY_VOID(requests_.wait("counters", own->bucket, own->bucket + 1));
  return requests_.answer(i).counters;
}

}  // namespace dtrain::kvstore
