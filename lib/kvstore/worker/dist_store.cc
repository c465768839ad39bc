#include "kvstore/worker/dist_store.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>

#include "kvstore/wire/chunks.h"
#include "kvstore/worker/training_state.h"

namespace dtrain::kvstore {
namespace {

uint64_t id_of(uint32_t key, uint32_t part) {
  return uint64_t{key} << 32 | part;
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
  parts_.clear();
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
    Part part;
    part.slice = slice;
    part.value = array.weight.subspan(slice.begin, slice.count);
    part.answer = part.value;
    part.bucket = bucket_of(slice.key);
    if (!is_statistic(part)) {
      part.gradient = array.gradient.subspan(slice.begin, slice.count);
      if (updater_) part.answer = sums_[slice.key].part(slice.begin, slice.count);
    }
    part_index_[id_of(slice.key, slice.part)] = parts_.size();
    parts_.push_back(std::move(part));
  }
  parts_of_.assign(open_.size(), {});
  for (Part& part : parts_) parts_of_[part.bucket].push_back(&part);
  return {};
}

Result<> DistStore::bind_state(const TrainingState& state) {
  counters_ = {.samples = state.samples, .updates = state.updates};
  DT_TRY(const SlotSpans slots, match_state(state, view_, slots_));
  if (slots.empty()) return {};
  for (Part& part : parts_) {
    if (is_statistic(part)) continue;
    for (const std::span<const float> values : slots[part.slice.key]) {
      part.state.push_back(values.subspan(part.slice.begin, part.slice.count));
    }
  }
  return {};
}

Result<> DistStore::initialize(std::span<const ParameterView> devices, const TrainingState& state) {
  DT_CHECK(!pipes_.empty(), "no pipes were attached");
  DT_CHECK(devices.size() == 1, "{} devices push and pull apart", devices.size());
  DT_TRY_VOID(bind(devices.front()));
  next_step_ = state.updates;
  samples_applied_ = state.samples;
  if (options_.rank != 0) {
    DT_TRY_VOID(pull(Kind::kPull, &DistStore::any, 0));
    if (!updater_) return {};
    // No worker has pushed yet, so this is what rank 0 has assigned.
    DT_TRY(const TrainingState of_rank_0, fetch_state());
    return begin_updates(of_rank_0);
  }
  DT_TRY_VOID(bind_state(state));
  DT_TRY_VOID(assign());
  for (Part& part : parts_) part.state.clear();
  return updater_ ? begin_updates(state) : Result<>{};
}

Result<> DistStore::begin_updates(const TrainingState& state) {
  ParameterView of_sums = view_;
  for (size_t p = 0; p < sums_.size(); p++) of_sums.parameters[p].gradient = sums_[p].span();
  of_sums.all_gradients = {};
  return updater_->bind(of_sums, {}, state);
}

template <class Begin>
Result<> DistStore::ask(const char* what, Wanted wanted, const Begin& begin_part) {
  std::vector<Part*> parts;
  for (Part& part : parts_) {
    if (!(this->*wanted)(part)) continue;
    const std::lock_guard lock(mutex_);
    begin_part(part);
    parts.push_back(&part);
  }
  return exchange(what, parts);
}

// One round of all workers, whatever the scheme.
Result<> DistStore::share_statistics(uint64_t samples) {
  const uint64_t round = share_count_++;
  const auto weight = static_cast<uint32_t>(std::min<uint64_t>(samples, UINT32_MAX));
  return ask("mean of the statistics", &DistStore::is_statistic,
             [&](Part& part) { begin(part, request_of(part, Kind::kPushPull, round, round + 1, weight), part.value); });
}

Result<> DistStore::refresh() {
  if (!options_.workers_differ) return {};
  return pull(Kind::kRefresh, &DistStore::is_parameter, next_step_);
}

Result<uint64_t> DistStore::regroup(std::span<const uint32_t> group_of) {
  group_of_.assign(group_of.begin(), group_of.end());
  const uint64_t request = next_request();
  DT_TRY_VOID(ask("new groups", &DistStore::is_parameter,
                  [&](Part& part) { begin(part, request_of(part, Kind::kRegroup, request, 0, 0), {}); }));
  const std::lock_guard lock(mutex_);
  std::optional<uint64_t> step;
  for (const Part& part : parts_) {
    if (!is_parameter(part)) continue;
    if (part.version != step.value_or(part.version)) {
      return fail(Code::kInternal, "new groups: key {} slice {} has {} updates, others have {}", part.slice.key,
                  part.slice.part, part.version, *step);
    }
    step = part.version;
  }
  return step.value_or(next_step_);
}

// A step.

Result<uint64_t> DistStore::next_step() {
  if (!options_.skips_steps) return next_step_;
  DT_TRY_VOID(wait_for_weights());
  // A slice may be a round ahead of another one; the worker's gradient of the earlier round is then late for it.
  const std::lock_guard lock(mutex_);
  std::optional<uint64_t> open;
  for (const Part& part : parts_) {
    if (is_parameter(part)) open = std::min(open.value_or(part.version), part.version);
  }
  return std::max(next_step_, open.value_or(0));
}

Result<uint64_t> DistStore::samples_applied() {
  DT_TRY_VOID(wait_for_weights(0));
  const std::lock_guard lock(mutex_);
  return samples_applied_;
}

Result<> DistStore::gradient_ready(DeviceBucket at, uint64_t step, uint32_t samples) {
  const size_t bucket = at.bucket;
  {
    const std::lock_guard lock(mutex_);
    if (error_) return tl::unexpected(*error_);
    for (Part* part : parts_of_[bucket]) {
      begin(*part, request_of(*part, Kind::kPushPull, step, step + 1, samples), part->answer);
    }
    sum_is_new_[bucket] = updater_ != nullptr;
    next_step_ = step + 1;
  }
  for (const Part* part : parts_of_[bucket]) send(*part);
  return {};
}

Result<> DistStore::wait_for_weights(DeviceBucket at) {
  const size_t bucket = at.bucket;
  DT_TRY_VOID(wait_until_answered(updater_ ? "gradient sums" : "weights", bucket, bucket + 1));
  return sum_is_new_[bucket] ? update_from_sum(bucket) : Result<>{};
}

Result<> DistStore::update_from_sum(size_t bucket) {
  sum_is_new_[bucket] = false;
  if (parts_of_[bucket].empty()) return {};
  const Part& any_part = *parts_of_[bucket].front();  // all sums of a round include the same workers
  updater_->update(bucket, any_part.samples);
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
  const uint64_t request = next_request();
  return ask("optimizer state", &DistStore::is_parameter, [&](Part& part) {
    const std::span<float> array = arrays[part.slice.key].values;
    begin(part, request_of(part, Kind::kPullState, request, 0, static_cast<uint32_t>(slot + 1)),
          array.subspan(part.slice.begin, part.slice.count));
  });
}

Result<Counters> DistStore::fetch_counters() {
  const auto part = std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) { return !is_statistic(p); });
  if (part == parts_.end()) return Counters{};
  // Numbers only for copy_floats; their bits are a Counters.
  std::array<float, sizeof(Counters) / sizeof(float)> words{};
  {
    const std::lock_guard lock(mutex_);
    begin(*part, request_of(*part, Kind::kPullState, next_request(), 0, kCountersSlot), words);
  }
  DT_TRY_VOID(exchange("counters", {&*part}));
  return std::bit_cast<Counters>(words);
}

Result<> DistStore::assign() {
  assign_count_++;
  return ask("acknowledgement", &DistStore::any, [&](Part& part) {
    const uint64_t version = is_statistic(part) ? 0 : counters_.updates;
    begin(part, request_of(part, Kind::kAssign, assign_count_, version, 0), {});
  });
}

Result<> DistStore::pull(Kind kind, Wanted wanted, uint64_t version) {
  const uint64_t request = next_request();
  return ask("value", wanted,
             [&](Part& part) { begin(part, request_of(part, kind, request, version, 0), part.value); });
}

Result<> DistStore::exchange(const char* what, const std::vector<Part*>& parts) {
  for (const Part* part : parts) send(*part);
  return wait_until_answered(what, 0, open_.size());
}

// Requests.

Header DistStore::request_of(const Part& part, Kind kind, uint64_t step, uint64_t version, uint32_t samples) const {
  Header header;
  header.kind = kind;
  header.rank = static_cast<uint16_t>(options_.rank);
  header.incarnation = options_.incarnation;
  header.step = step;
  header.version = version;
  header.key = part.slice.key;
  header.slice = part.slice.part;
  header.samples = samples;
  return header;
}

void DistStore::begin(Part& part, const Header& request, std::span<float> into) {
  DT_CHECK(!part.waits, "key {} slice {} still waits for an answer", part.slice.key, part.slice.part);
  part.request = request;
  part.into = into;
  part.received = 0;
  part.waits = true;
  open_[part.bucket]++;
}

void DistStore::send(const Part& part) {
  Pipe& pipe = *pipes_[part.slice.server];
  switch (part.request.kind) {
    case Kind::kPushPull:
      // No owner: the values do not change before the answer, which the server sends only after it has received all of
      // them.
      return send_values(pipe, part.request, is_statistic(part) ? part.value : part.gradient, nullptr,
                         options_.checksums);
    case Kind::kAssign: return send_assignment(part, pipe);
    case Kind::kRegroup: {
      Header header = part.request;
      header.element_count = static_cast<uint32_t>(group_of_.size());
      return pipe.send(make_message(header, std::as_bytes(std::span(group_of_)), nullptr, options_.checksums));
    }
    default: return pipe.send({part.request, {}, nullptr});
  }
}

void DistStore::send_assignment(const Part& part, Pipe& pipe) {
  if (!is_statistic(part)) {
    Header header = part.request;
    header.samples = kCountersSlot;
    header.element_count = sizeof(Counters) / sizeof(float);
    pipe.send(make_message(header, std::as_bytes(std::span(&counters_, 1)), nullptr, options_.checksums));
  }
  for (size_t slot = 0; slot < part.state.size(); slot++) {
    Header header = part.request;
    header.samples = static_cast<uint32_t>(slot + 1);
    send_values(pipe, header, part.state[slot], nullptr, options_.checksums);
  }
  send_values(pipe, part.request, part.value, nullptr, options_.checksums);
}

// Answers.

bool DistStore::is_expected(const Part& part, const Header& header) const {
  // A sum carries the number of samples of all workers.
  const bool is_sum = options_.sums_only && part.request.kind == Kind::kPushPull;
  return part.waits && !error_ && header.kind == Kind::kAnswer && header.step == part.request.step &&
         (is_sum || header.samples == part.request.samples);
}

void DistStore::on_message(uint32_t server, const Header& header, Pieces payload) {
  const auto found = part_index_.find(id_of(header.key, header.slice));
  if (found == part_index_.end()) return;
  Part& part = parts_[found->second];
  std::span<float> to;
  uint64_t attempt = 0;
  {
    const std::lock_guard lock(mutex_);
    attempt = part.attempt;
    if (!is_expected(part, header)) return;  // an answer that came before
    if (header.status != Status::kOk && header.status != Status::kDuplicate) return fail_all(refusal(server, header));
    const bool fits = part.into.empty() ? header.payload_bytes == 0
                                        : header.encoding == Encoding::kFloat32 && header.element_count > 0 &&
                                              header.first_element == part.received &&
                                              header.element_count <= part.into.size() - part.received;
    if (!fits) return;
    if (!part.into.empty()) to = part.into.subspan(header.first_element, header.element_count);
  }
  // Without the lock, so that answers for other slices are written at the same time. Nobody else touches this part's
  // values: it has an open request, and messages of one slice come one at a time.
  const bool is_intact = payload_intact(header, payload);
  if (is_intact && !to.empty()) copy_floats(payload, to);
  const std::lock_guard lock(mutex_);
  if (!is_intact) {
    return fail_all(
        {Code::kPeerLost,
         fmt::format("server {}: key {} slice {} came with a broken checksum", server, header.key, header.slice),
         {}});
  }
  if (part.attempt != attempt) return;  // sent again in the meantime: the answer will come again from its beginning
  part.received += to.size();
  if (part.received < part.into.size()) return;
  part.waits = false;
  part.samples = header.samples;
  part.version = header.version;
  const bool tells_progress = part.request.kind == Kind::kPushPull || part.request.kind == Kind::kRefresh;
  if (&part == &parts_.front() && tells_progress) samples_applied_ = header.samples_applied;
  if (--open_[part.bucket] == 0) changed_.notify_all();
}

void DistStore::on_reconnected(uint32_t server) {
  std::vector<const Part*> unanswered;
  {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    for (Part& part : parts_) {
      if (part.slice.server != server || !part.waits) continue;
      part.received = 0;
      part.attempt++;
      unanswered.push_back(&part);
    }
  }
  for (const Part* part : unanswered) send(*part);
}

Error DistStore::refusal(uint32_t server, const Header& header) const {
  const std::string what = fmt::format("server {} refuses key {} slice {} step {} of worker {}", server, header.key,
                                       header.slice, header.step & ~kRequestBit, options_.rank);
  switch (header.status) {
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
  const std::lock_guard lock(mutex_);
  fail_all(std::move(error));
}

// Waits.

std::string DistStore::describe_open() const {
  const std::lock_guard lock(mutex_);
  const Part* first = nullptr;
  size_t count = 0;
  for (const Part& part : parts_) {
    if (!part.waits) continue;
    if (count++ == 0) first = &part;
  }
  if (first == nullptr) return "nothing";
  const std::string others = count > 1 ? fmt::format(" and {} more", count - 1) : "";
  return fmt::format("key {} slice {} version {} on server {}{}", first->slice.key, first->slice.part,
                     first->request.version, first->slice.server, others);
}

Result<> DistStore::wait_until_answered(const char* what, size_t first_bucket, size_t end_bucket) {
  const auto is_answered = [&] {
    return std::all_of(open_.begin() + static_cast<ptrdiff_t>(first_bucket),
                       open_.begin() + static_cast<ptrdiff_t>(end_bucket), [](size_t open) { return open == 0; });
  };
  {
    const std::lock_guard lock(mutex_);
    if (error_) return tl::unexpected(*error_);
    if (is_answered()) return {};
  }
  // Created before the lock is taken: a thread that lists the open waits calls describe_open, which takes the lock.
  const auto describe = [this, what] { return fmt::format("{}: {}", what, describe_open()); };
  const Waits::Wait wait(waits_, describe);
  std::unique_lock lock(mutex_);
  const auto limit = std::chrono::duration<double>(options_.wait_limit_s);
  const bool in_time = changed_.wait_for(lock, limit, [&] { return error_ || is_answered(); });
  wait_s_ += wait.seconds();
  if (error_) return tl::unexpected(*error_);
  if (in_time) return {};
  lock.unlock();
  return fail(Code::kPeerLost, "waited {:.0f} s for {}", wait.seconds(), describe());
}

StoreTimes DistStore::times() const {
  const std::lock_guard lock(mutex_);
  return {.wait_s = wait_s_};
}

}  // namespace dtrain::kvstore
