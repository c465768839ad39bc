#include "kvstore/worker/dist_store.h"

#include <algorithm>
#include <chrono>

#include "kvstore/worker/training_state.h"

namespace dtrain::kvstore {
namespace {

// A network card or a memory module that damages a message ten times in a row will not stop doing so.
constexpr int kDamagedMax = 10;
constexpr uint64_t kDamagedPerLine = 100;

uint64_t number_of(const Head& request) {
  if (const auto* header = std::get_if<Header>(&request)) return header->request;
  const auto* control = std::get_if<ControlRequest>(&request);
  return control == nullptr ? 0 : control->request;
}

// The step that the weights begin for which the request waits.
uint64_t wanted_version(const Head& request) {
  if (const auto* header = std::get_if<Header>(&request)) return header->step + (header->kind == Kind::kPush ? 1 : 0);
  const auto* values = std::get_if<AssignValues>(&std::get<ControlRequest>(request).what);
  return values == nullptr ? 0 : values->counters.updates;
}

bool is_push(const Head& request) {
  const auto* header = std::get_if<Header>(&request);
  return header != nullptr && header->kind == Kind::kPush;
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
      waits_(waits),
      updater_(std::move(updater)),
      sum_is_new_(bucket_count()),
      open_(bucket_count() + 1, 0) {}

void DistStore::attach(std::vector<std::shared_ptr<Pipe>> pipes) {
  for (const Slice& slice : options_.placement) {
    DT_CHECK(slice.server < pipes.size(), "server {} of {}", slice.server, pipes.size());
  }
  pipes_ = std::move(pipes);
}

// Start: binds the view's memory and fills it.

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
      return fail(Code::kUsage, "the placement has key {}, the network has {}", slice.key,
                  parameters + view.statistics.size());
    }
    const ParameterSpan& array =
        slice.key < parameters ? view.parameters[slice.key] : view.statistics[slice.key - parameters];
    if (slice.begin + slice.count > array.weight.size()) {
      return fail(Code::kUsage, "the placement has {} elements of '{}', the network has {}", slice.begin + slice.count,
                  array.name, array.weight.size());
    }
    WorkerSlice own;
    own.slice = slice;
    own.value = array.weight.subspan(slice.begin, slice.count);
    own.push_answer = own.value;
    own.bucket = bucket_of(slice.key);
    if (!is_statistic(own)) {
      own.gradient = array.gradient.subspan(slice.begin, slice.count);
      if (updater_) own.push_answer = sums_[slice.key].part(slice.begin, slice.count);
    }
    slices_.push_back(std::move(own));
  }
  slices_of_.assign(bucket_count() + 1, {});
  for (WorkerSlice& own : slices_) {
    slices_of_[own.bucket].push_back(&own);
    slice_by_id_[{own.slice.key, own.slice.part}] = &own;
  }
  return {};
}

Result<> DistStore::bind_state(const TrainingState& state) {
  counters_ = {.samples = state.samples, .updates = state.updates};
  DT_TRY(const SlotSpans slots, match_state(state, view_, slots_));
  if (slots.empty()) return {};
  for (WorkerSlice& own : slices_) {
    if (is_statistic(own)) continue;
    for (const std::span<const float> values : slots[own.slice.key]) {
      own.state.push_back(values.subspan(own.slice.begin, own.slice.count));
    }
  }
  return {};
}

Result<> DistStore::initialize(std::span<const ParameterView> devices, const TrainingState& state) {
  DT_CHECK(!pipes_.empty(), "no pipes were attached");
  DT_CHECK(devices.size() == 1, "{} devices push and pull apart", devices.size());
  DT_TRY_VOID(bind(devices.front()));
  next_step_ = state.updates;
  {
    const MutexLock lock(mutex_);
    samples_applied_ = state.samples;
  }
  if (options_.rank != 0) {
    DT_TRY_VOID(pull(Kind::kPull, &DistStore::any, 0));
    if (!updater_) return {};
    // No worker has pushed yet, so this is what rank 0 has assigned.
    DT_TRY(const TrainingState of_rank_0, fetch_state());
    return begin_updates(of_rank_0);
  }
  DT_TRY_VOID(bind_state(state));
  DT_TRY_VOID(assign());
  for (WorkerSlice& own : slices_) own.state.clear();
  return updater_ ? begin_updates(state) : Result<>{};
}

Result<> DistStore::begin_updates(const TrainingState& state) {
  ParameterView of_sums = view_;
  for (size_t p = 0; p < sums_.size(); p++) of_sums.parameters[p].gradient = sums_[p].span();
  of_sums.all_gradients = {};
  return updater_->bind(of_sums, {}, state);
}

template <class Begin>
Result<> DistStore::ask(const char* what, Wanted wanted, const Begin& begin_one) {
  std::vector<WorkerSlice*> asked;
  for (WorkerSlice& own : slices_) {
    if (!(this->*wanted)(own)) continue;
    const MutexLock lock(mutex_);
    begin_one(own);
    asked.push_back(&own);
  }
  return send_and_wait(what, asked);
}

// One round of all workers, whatever the scheme.
Result<> DistStore::share_statistics(uint64_t samples) {
  const uint64_t round = share_count_++;
  const auto weight = static_cast<uint32_t>(std::min<uint64_t>(samples, UINT32_MAX));
  return ask("mean of the statistics", &DistStore::is_statistic, [&](WorkerSlice& own) DT_REQUIRES(mutex_) {
    begin(own, data_request(own, Kind::kPush, round, weight), own.value);
  });
}

Result<> DistStore::refresh() {
  if (!options_.workers_differ) return {};
  return pull(Kind::kRefresh, &DistStore::is_parameter, next_step_);
}

Result<uint64_t> DistStore::regroup(std::span<const uint32_t> group_of) {
  const Regroup groups{{group_of.begin(), group_of.end()}};
  DT_TRY_VOID(ask("new groups", &DistStore::is_parameter,
                  [&](WorkerSlice& own) DT_REQUIRES(mutex_) { begin(own, control_request(own, groups), {}); }));
  const MutexLock lock(mutex_);
  std::optional<uint64_t> step;
  for (const WorkerSlice& own : slices_) {
    if (!is_parameter(own)) continue;
    const uint64_t updates = own.counters.updates;
    if (updates != step.value_or(updates)) {
      return fail(Code::kInternal, "new groups: key {} slice {} has {} updates, others have {}", own.slice.key,
                  own.slice.part, updates, *step);
    }
    step = updates;
  }
  return step.value_or(next_step_);
}

// A step.

Result<uint64_t> DistStore::next_step() {
  if (!options_.skips_steps) return next_step_;
  DT_TRY_VOID(wait_for_weights());
  // A slice may be a round ahead of another one; the worker's gradient of the earlier round is then late for it.
  const MutexLock lock(mutex_);
  std::optional<uint64_t> open;
  for (const WorkerSlice& own : slices_) {
    if (is_parameter(own)) open = std::min(open.value_or(own.step), own.step);
  }
  return std::max(next_step_, open.value_or(0));
}

Result<uint64_t> DistStore::samples_applied() {
  DT_TRY_VOID(wait_for_weights(0));
  const MutexLock lock(mutex_);
  return samples_applied_;
}

Result<> DistStore::gradient_ready(DeviceBucket at, uint64_t step, uint32_t samples) {
  const size_t bucket = at.bucket;
  {
    const MutexLock lock(mutex_);
    if (error_) return tl::unexpected(*error_);
    for (WorkerSlice* own : slices_of_[bucket]) {
      begin(*own, data_request(*own, Kind::kPush, step, samples), own->push_answer);
    }
    sum_is_new_[bucket] = updater_ != nullptr;
    next_step_ = step + 1;
  }
  for (const WorkerSlice* own : slices_of_[bucket]) send(*own);
  return {};
}

Result<> DistStore::wait_for_weights(DeviceBucket at) {
  const size_t bucket = at.bucket;
  DT_TRY_VOID(wait_until_answered(updater_ ? "gradient sums" : "weights", bucket, bucket + 1));
  return sum_is_new_[bucket] ? update_from_sum(bucket) : Result<>{};
}

Result<> DistStore::update_from_sum(size_t bucket) {
  sum_is_new_[bucket] = false;
  if (slices_of_[bucket].empty()) return {};
  const WorkerSlice& any_slice = *slices_of_[bucket].front();  // all sums of a round include the same workers
  updater_->update(bucket, any_slice.samples_in_sum);
  return {};
}

// Between steps.

Result<> DistStore::wait_for_weights() {
  for (size_t bucket = 0; bucket < bucket_count(); bucket++) DT_TRY_VOID(wait_for_weights(bucket));
  return {};
}

Result<TrainingState> DistStore::state() {
  DT_TRY_VOID(wait_for_weights());
  if (!updater_) return fetch_state();
  TrainingState state = updater_->empty_state();
  DT_TRY_VOID(updater_->read_state(state));
  return state;
}

Result<TrainingState> DistStore::fetch_state() {
  TrainingState state;
  std::vector<std::vector<NamedArray>> by_slot(slots_.size());
  for (size_t slot = 0; slot < slots_.size(); slot++) {
    for (const ParameterSpan& parameter : view_.parameters) {
      by_slot[slot].push_back(
          {slot_name(parameter, slots_[slot]), parameter.shape, std::vector<float>(parameter.weight.size())});
    }
    DT_TRY_VOID(fetch_slot(slot, by_slot[slot]));
  }
  for (size_t i = 0; i < view_.parameters.size(); i++) {
    for (std::vector<NamedArray>& arrays : by_slot) state.slots.push_back(std::move(arrays[i]));
  }
  DT_TRY(const Counters counters, fetch_counters());
  state.samples = counters.samples;
  state.updates = counters.updates;
  return state;
}

Result<> DistStore::fetch_slot(size_t slot, std::span<NamedArray> arrays) {
  const PullState pull{.slot = static_cast<uint32_t>(slot)};
  return ask("optimizer state", &DistStore::is_parameter, [&](WorkerSlice& own) DT_REQUIRES(mutex_) {
    const std::span<float> array = arrays[own.slice.key].values;
    begin(own, control_request(own, pull), array.subspan(own.slice.begin, own.slice.count));
  });
}

Result<Counters> DistStore::fetch_counters() {
  const auto own = std::ranges::find_if(slices_, [&](const WorkerSlice& s) { return is_parameter(s); });
  if (own == slices_.end()) return Counters{};
  {
    const MutexLock lock(mutex_);
    begin(*own, control_request(*own, PullCounters{}), {});
  }
  DT_TRY_VOID(send_and_wait("counters", {&*own}));
  const MutexLock lock(mutex_);
  return own->counters;
}

Result<> DistStore::assign() {
  return ask("acknowledgement", &DistStore::any, [&](WorkerSlice& own) DT_REQUIRES(mutex_) {
    const AssignValues values{is_statistic(own) ? Counters{} : counters_};
    begin(own, control_request(own, values), {});
  });
}

Result<> DistStore::pull(Kind kind, Wanted wanted, uint64_t step) {
  return ask("value", wanted,
             [&](WorkerSlice& own) DT_REQUIRES(mutex_) { begin(own, data_request(own, kind, step), own.value); });
}

Result<> DistStore::send_and_wait(const char* what, const std::vector<WorkerSlice*>& slices) {
  for (const WorkerSlice* own : slices) send(*own);
  return wait_until_answered(what, 0, bucket_count() + 1);
}

// Requests.

Header DistStore::data_request(const WorkerSlice& slice, Kind kind, uint64_t step, uint32_t samples) {
  Header header;
  header.kind = kind;
  header.rank = options_.rank;
  header.incarnation = options_.incarnation;
  header.request = ++request_count_;
  header.step = step;
  header.key = slice.slice.key;
  header.slice = slice.slice.part;
  header.samples = samples;
  return header;
}

template <class What>
ControlRequest DistStore::control_request(const WorkerSlice& slice, const What& what) {
  return {.id = {slice.slice.key, slice.slice.part},
          .rank = options_.rank,
          .incarnation = options_.incarnation,
          .request = ++request_count_,
          .what = what};
}

void DistStore::begin(WorkerSlice& slice, Head request, std::span<float> into) {
  DT_CHECK(!slice.waits, "key {} slice {} still waits for an answer", slice.slice.key, slice.slice.part);
  slice.request = std::move(request);
  slice.into = into;
  slice.waits = true;
  open_[slice.bucket]++;
}

// No message has an owner: its values do not change before the answer, which the server sends only after it has
// received them.
template <class Send>
void DistStore::each_message(const WorkerSlice& slice, const Send& send) const {
  const auto* control = std::get_if<ControlRequest>(&slice.request);
  if (is_push(slice.request)) {
    const std::span<const float> values = is_statistic(slice) ? slice.value : slice.gradient;
    send(make_message(slice.request, values, nullptr, options_.checksums));
  } else if (control != nullptr && std::holds_alternative<AssignValues>(control->what)) {
    for (uint32_t slot = 0; slot < slice.state.size(); slot++) {
      ControlRequest of_slot = *control;
      of_slot.what = AssignState{slot};
      send(make_message(of_slot, slice.state[slot], nullptr, options_.checksums));
    }
    send(make_message(*control, slice.value, nullptr, options_.checksums));
  } else {
    send(Message{slice.request});
  }
}

void DistStore::send(const WorkerSlice& slice) {
  each_message(slice, [&](Message message) { pipes_[slice.slice.server]->send(std::move(message)); });
}

// Answers.

void DistStore::on_message(uint32_t server, const Head& head, Pieces payload) {
  const std::optional<Answer> answer = answer_of(head);
  const auto found = slice_by_id_.find(slice_of(head));
  if (!answer || found == slice_by_id_.end()) return;
  WorkerSlice& slice = *found->second;
  std::span<float> into;
  {
    const MutexLock lock(mutex_);
    const bool is_expected = slice.waits && slice.slice.server == server && !error_ &&
                             answer->request == number_of(slice.request) &&
                             std::holds_alternative<Header>(head) == std::holds_alternative<Header>(slice.request);
    if (!is_expected) return;  // its request was answered before
    const bool is_corrupt = answer->status == Status::kCorrupt;
    std::optional<Error> why = is_corrupt ? std::nullopt : objection(slice, *answer, payload);
    if (why) return fail_all(std::move(*why));
    into = slice.into;
  }
  if (answer->status == Status::kCorrupt) return send_again(slice);
  // Without the lock, so that answers for other slices are written at the same time. Nobody else touches this slice's
  // values: it has an open request, and messages of one slice come one at a time.
  if (!payload_intact(answer->payload_crc, payload)) return send_again(slice);
  if (!into.empty()) copy_floats(payload, into);
  const MutexLock lock(mutex_);
  close_request(slice, head);
}

// Requests may be repeated: the server does not add a gradient twice, and answers again.
void DistStore::send_again(WorkerSlice& slice) {
  const std::string what = fmt::format("key {} slice {} was damaged on its way between worker {} and server {}",
                                       slice.slice.key, slice.slice.part, options_.rank, slice.slice.server);
  bool is_logged = false;
  {
    const MutexLock lock(mutex_);
    if (++slice.damaged == kDamagedMax) {
      return fail_all({Code::kPeerLost, fmt::format("{} {} times in a row", what, kDamagedMax), {}});
    }
    is_logged = damaged_++ % kDamagedPerLine == 0;
  }
  if (is_logged) options_.log.warn("{}; it is sent again (one line in {} such messages)", what, kDamagedPerLine);
  send(slice);
}

std::optional<DistStore::Answer> DistStore::answer_of(const Head& head) {
  if (const auto* header = std::get_if<Header>(&head)) {
    if (header->kind != Kind::kAnswer) return std::nullopt;
    return Answer{header->request, header->status, header->payload_crc, header->encoding};
  }
  const auto* control = std::get_if<ControlAnswer>(&head);
  if (control == nullptr) return std::nullopt;
  return Answer{control->request, control->status, control->payload_crc};
}

std::optional<Error> DistStore::objection(const WorkerSlice& slice, const Answer& answer, Pieces payload) const {
  if (answer.status != Status::kOk && answer.status != Status::kDuplicate) return refusal(slice, answer.status);
  if (answer.encoding == Encoding::kFloat32 && byte_count(payload) == slice.into.size_bytes()) return std::nullopt;
  return Error{Code::kInternal,
               fmt::format("server {} sends {} bytes for key {} slice {}, which has {}", slice.slice.server,
                           byte_count(payload), slice.slice.key, slice.slice.part, slice.into.size_bytes()),
               {}};
}

void DistStore::close_request(WorkerSlice& slice, const Head& answer) {
  slice.waits = false;
  slice.damaged = 0;
  if (const auto* control = std::get_if<ControlAnswer>(&answer)) {
    slice.counters = control->counters;
  } else {
    const auto& header = std::get<Header>(answer);
    const bool is_pull = std::get<Header>(slice.request).kind == Kind::kPull;
    slice.samples_in_sum = header.samples;
    slice.step = header.step;
    if (&slice == &slices_.front() && !is_pull) samples_applied_ = header.samples_applied;
  }
  if (--open_[slice.bucket] == 0) changed_.notify_all();
}

void DistStore::on_reconnected(uint32_t server) {
  std::vector<Message> unanswered;
  {
    const MutexLock lock(mutex_);
    if (error_) return;
    for (const WorkerSlice& own : slices_) {
      if (own.slice.server != server || !own.waits) continue;
      each_message(own, [&](Message message) { unanswered.push_back(std::move(message)); });
    }
  }
  for (Message& message : unanswered) pipes_[server]->send(std::move(message));
}

Error DistStore::refusal(const WorkerSlice& slice, Status status) const {
  const auto* header = std::get_if<Header>(&slice.request);
  const std::string step = header == nullptr ? "" : fmt::format(" step {}", header->step);
  const std::string what = fmt::format("server {} refuses key {} slice {}{} of worker {}", slice.slice.server,
                                       slice.slice.key, slice.slice.part, step, options_.rank);
  switch (status) {
    case Status::kStaleIncarnation: return {Code::kUsage, what + ": another process has taken over this rank", {}};
    case Status::kUnknownKey: return {Code::kUsage, what + ": the key was never initialised", {}};
    case Status::kBadSize: return {Code::kUsage, what + ": its size is another one there", {}};
    case Status::kNonFinite: return {Code::kInternal, what + ": the gradient is not finite", {}};
    default: return {Code::kInternal, what + ": it is against the protocol", {}};
  }
}

void DistStore::fail_all(Error error) {
  if (!error_) error_ = std::move(error);
  changed_.notify_all();
}

void DistStore::cancel(Error error) {
  const MutexLock lock(mutex_);
  fail_all(std::move(error));
}

// Waits.

std::string DistStore::describe_open() const {
  const MutexLock lock(mutex_);
  const WorkerSlice* first = nullptr;
  size_t count = 0;
  for (const WorkerSlice& own : slices_) {
    if (!own.waits) continue;
    if (count++ == 0) first = &own;
  }
  if (first == nullptr) return "nothing";
  const std::string others = count > 1 ? fmt::format(" and {} more", count - 1) : "";
  return fmt::format("key {} slice {} version {} on server {}{}", first->slice.key, first->slice.part,
                     wanted_version(first->request), first->slice.server, others);
}

Result<> DistStore::wait_until_answered(const char* what, size_t first_bucket, size_t end_bucket) {
  const auto is_answered = [&]() DT_REQUIRES(mutex_) {
    return std::all_of(open_.begin() + static_cast<ptrdiff_t>(first_bucket),
                       open_.begin() + static_cast<ptrdiff_t>(end_bucket), [](size_t open) { return open == 0; });
  };
  {
    const MutexLock lock(mutex_);
    if (error_) return tl::unexpected(*error_);
    if (is_answered()) return {};
  }
  // Created before the lock is taken: a thread that lists the open waits calls describe_open, which takes the lock.
  const auto describe = [this, what] { return fmt::format("{}: {}", what, describe_open()); };
  const Waits::Wait wait(waits_, describe);
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return error_ || is_answered(); });
  wait_s_ += wait.seconds();
  if (error_) return tl::unexpected(*error_);
  return {};
}

StoreTimes DistStore::times() const {
  const MutexLock lock(mutex_);
  return {.wait_s = wait_s_};
}

}  // namespace dtrain::kvstore
