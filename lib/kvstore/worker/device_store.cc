#include "kvstore/worker/device_store.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "telemetry/timeline.h"
#include "tensor/buckets.h"

namespace dtrain::kvstore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kFirst = 0;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

Result<std::unique_ptr<DeviceStore>> DeviceStore::create(DeviceStoreOptions options,
                                                         std::vector<std::unique_ptr<comm::Collective>> group,
                                                         std::unique_ptr<Store> servers, Waits& waits) {
  const bool has_servers = options.update_at == UpdateAt::kServers;
  DT_CHECK(has_servers == (servers != nullptr), "a store must be given if servers update the weights, and only then");
  DT_CHECK(!has_servers || group.size() > 1, "a device store in front of servers needs more than one device");
  std::unique_ptr<DeviceStore> store(new DeviceStore(std::move(options), false, std::move(servers), waits));
  store->take(std::move(group));
  if (has_servers) return store;
  for (Device& device : store->devices_) {
    const UpdaterOptions updates{.rule = store->options_.rule, .bucket_begin = store->options_.bucket_begin};
    DT_TRY(device.updater, Updater::create(updates, store->options_.threads));
  }
  return store;
}

Result<std::unique_ptr<DeviceStore>> DeviceStore::create_on_devices(
    DeviceStoreOptions options, std::vector<std::unique_ptr<comm::Collective>> group, Optimizers optimizers,
    Waits& waits) {
  DT_CHECK(options.update_at != UpdateAt::kServers,
           "if servers update the weights, the weights must be in host memory");
  std::unique_ptr<DeviceStore> store(new DeviceStore(std::move(options), true, nullptr, waits));
  store->take(std::move(group));
  DT_CHECK(store->devices_.size() == optimizers.size(), "there are {} optimizers for {} devices", optimizers.size(),
           store->devices_.size());
  for (size_t i = 0; i < optimizers.size(); i++) {
    const UpdaterOptions updates{.rule = store->options_.rule, .bucket_begin = store->options_.bucket_begin};
    DT_TRY(store->devices_[i].updater, Updater::create(updates, std::move(optimizers[i])));
  }
  return store;
}

DeviceStore::DeviceStore(DeviceStoreOptions options, bool on_devices, std::unique_ptr<Store> servers, Waits& waits)
    : options_(std::move(options)),
      on_devices_(on_devices),
      waits_(waits),
      is_new_(options_.joins),
      members_(options_.members),
      servers_(std::move(servers)) {
  const bool has_all = options_.update_at == UpdateAt::kReplicas || options_.update_at == UpdateAt::kServers;
  DT_CHECK(!options_.make_group || (has_all && !on_devices_),
           "a group is made anew only if every worker, or the servers, have all weights, in the host's memory");
}

void DeviceStore::take(std::vector<std::unique_ptr<comm::Collective>> group) {
  const bool alone = group.empty();
  if (alone) group.emplace_back();
  if (devices_.empty()) devices_.resize(group.size());
  DT_CHECK(devices_.size() == group.size(), "there are {} groups for {} devices", group.size(), devices_.size());
  std::optional<Error> ended;
  {
    const MutexLock of_group(group_mutex_);
    for (size_t i = 0; i < group.size(); i++) devices_[i].group = std::move(group[i]);
    first_group_ = devices_.front().group.get();
    const MutexLock lock(mutex_);
    is_open_.assign(devices_.size() * bucket_count(), false);
    if (const Error* why = why_not()) ended = *why;  // somebody has ended the group before it was here
  }
  if (ended) cancel_group(*ended);
  for (size_t i = 0; i < devices_.size(); i++) {
    Device& device = devices_[i];
    device.store = this;
    device.step = kNoStep;
    if (!alone) device.exchanges = std::make_unique<TaskQueue>(1, fmt::format("exchange-{}", i));
  }
}

// An exchange thread may wait for another device's part that never comes, so the destructor cancels the exchanges. An
// exchange thread that fails cancels the group of the first device, so all exchange threads must end before any group
// is destroyed. Groups that work on devices have no exchange threads; after a successful run their ranks end together.
DeviceStore::~DeviceStore() {
  if (!is_alone() && !on_devices_) cancel({Code::kPreempted, "the store is closed", {}});
  for (Device& device : devices_) device.exchanges.reset();
}

FlatInterval DeviceStore::interval(size_t bucket) const {
  const auto& begins = options_.bucket_begin;
  const ParameterView& view = devices_.front().view;
  return flat_interval(view, begins[bucket], bucket_end(begins, bucket, view.parameters.size()));
}

// Assigns buckets to devices: the largest bucket first, each to the device with the least load. MXNet chooses its merge
// GPUs by the same rule.
void DeviceStore::choose_owners() {
  owners_.assign(bucket_count(), 0);
  std::vector<size_t> by_size(bucket_count());
  for (size_t b = 0; b < by_size.size(); b++) by_size[b] = b;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return interval(a).count > interval(b).count; });
  std::vector<size_t> load(devices_.size(), 0);
  for (const size_t bucket : by_size) {
    const auto least = std::min_element(load.begin(), load.end());
    owners_[bucket] = static_cast<uint32_t>(least - load.begin());
    *least += interval(bucket).count;
  }
}

std::vector<FlatInterval> DeviceStore::owned_by(const Device& device) const {
  std::vector<FlatInterval> owned;
  // An empty result means that the device updates everything.
  if (device.group == nullptr || options_.update_at == UpdateAt::kReplicas) return owned;
  for (size_t bucket = 0; bucket < bucket_count(); bucket++) {
    const size_t elements = interval(bucket).count;
    if (options_.update_at == UpdateAt::kShards) {
      const comm::Part part = comm::part_of(elements, device.group->rank(), device.group->size());
      owned.push_back({part.begin, part.count});
    } else {
      owned.push_back({0, device.group->rank() == owner(bucket) ? elements : 0});
    }
  }
  return owned;
}

Result<> DeviceStore::initialize(std::span<const ParameterView> devices, const TrainingState& state) {
  return begin(devices, state, &Store::initialize);
}

Result<> DeviceStore::take_over(std::span<const ParameterView> devices, const TrainingState& state) {
  return begin(devices, state, &Store::take_over);
}

// The views of the devices, and a state that the updaters take over.
Result<> DeviceStore::bind(std::span<const ParameterView> devices, const TrainingState& state) {
  DT_CHECK(devices.size() == devices_.size(), "there are {} views for {} devices", devices.size(), devices_.size());
  for (size_t i = 0; i < devices.size(); i++) devices_[i].view = devices[i];
  {
    const MutexLock lock(mutex_);
    next_step_ = state.updates;
  }
  if (servers_) return {};
  if (options_.update_at == UpdateAt::kOwner && !is_alone()) choose_owners();
  for (Device& device : devices_) DT_TRY_VOID(device.updater->bind(device.view, owned_by(device), state));
  return {};
}

Result<> DeviceStore::begin(std::span<const ParameterView> devices, const TrainingState& state, Begin servers) {
  DT_TRY_VOID(bind(devices, state));
  if (servers_) DT_TRY_VOID((servers_.get()->*servers)(devices.first(1), state));
  return is_alone() || is_new_ ? Result<>{} : on_all<&DeviceStore::start>("the initial weights", kFirst);
}

// Broadcasts the weights, the statistics and, for replicas, the optimizer state: replicas in other processes get the
// state in no other way. `giver`: the rank in the group.
Result<> DeviceStore::start(Device& device, uint32_t, uint32_t giver) {
  DT_TRY_VOID(device.group->broadcast(device.view.all_weights, giver));
  DT_TRY_VOID(device.group->broadcast(device.view.all_statistics, giver));
  Result<> outcome;
  if (options_.update_at == UpdateAt::kReplicas) {
    device.updater->for_each_slot([&](std::span<float> slot) {
      if (outcome) outcome = device.group->broadcast(slot, giver);
    });
  }
  if (!outcome) return outcome;
  // Reads nothing, but returns only when the device has finished the queued work.
  return read_array(device.view.device, {}, {});
}

// The following functions make a step.

template <DeviceStore::Work work>
Result<> DeviceStore::carry_out(Device& device, uint32_t bucket, uint32_t samples) {
  if (std::optional<Error> ended = error()) return tl::unexpected(std::move(*ended));
  Result<> outcome = catching([&] { return (this->*work)(device, bucket, samples); });
  if (outcome) return outcome;
  const bool may_renew = options_.make_group && outcome.error().code == Code::kPeerLost;
  may_renew ? end_group(outcome.error()) : cancel(outcome.error());
  return outcome;
}

template <DeviceStore::Work work>
void DeviceStore::enqueue(Device& device, uint32_t bucket, uint32_t samples) {
  // The captured values fit into the std::function itself, so nothing is allocated. The Error may be ignored, because
  // cancel() keeps it.
  device.exchanges->run([&device, bucket, samples] { (void)device.store->carry_out<work>(device, bucket, samples); });
}

template <DeviceStore::Work work>
Result<> DeviceStore::push(Device& device, uint32_t bucket, uint32_t samples) {
  if (on_devices_) return carry_out<work>(device, bucket, samples);
  enqueue<work>(device, bucket, samples);
  return {};
}

Result<> DeviceStore::gradient_ready(DeviceBucket at, uint64_t step, uint32_t samples) {
  Device& device = devices_[at.device];
  {
    const MutexLock lock(mutex_);
    if (const Error* why = why_not()) return tl::unexpected(*why);
    next_step_ = step + 1;
    if (has_update(device, at.bucket, step)) return {};
    is_open(at) = device.exchanges != nullptr && !on_devices_;
  }
  if (is_alone()) {
    telemetry::Span span(options_.timeline, "update", "push");
    span.with("bucket", at.bucket);
    device.samples = samples;
    return search_and_update(device, at.bucket);
  }
  const auto bucket = static_cast<uint32_t>(at.bucket);
  // device.step changes only here, after all buckets of the last step have been exchanged, because exchange threads
  // read it.
  if (device.step != step) {
    device.step = step;
    DT_TRY_VOID(push<&DeviceStore::count_samples>(device, bucket, samples));
  }
  DT_TRY_VOID(push<&DeviceStore::exchange>(device, bucket, samples));
  if (options_.update_at != UpdateAt::kServers || bucket > 0) return {};
  // All sums are in flight: fetch the new weights, in the order in which the forward pass needs them.
  for (uint32_t b = 0; b < bucket_count(); b++) enqueue<&DeviceStore::fetch>(device, b, samples);
  return {};
}

// If the group spans processes, each process knows only its own number of samples. A process that leaves the step out
// adds a NaN, so that the sum is NaN for all.
Result<> DeviceStore::count_samples(Device& device, uint32_t, uint32_t samples) {
  const auto processes = static_cast<uint32_t>(device.group->size() / devices_.size());
  device.samples = samples * processes;
  if (processes == 1 || !options_.samples_differ || on_devices_) return {};
  float count = 0;
  if (&device == &devices_.front()) {
    count = samples > 0 ? static_cast<float>(samples) : std::numeric_limits<float>::quiet_NaN();
  }
  DT_TRY_VOID(device.group->all_reduce({&count, 1}));
  device.samples = std::isnan(count) ? 0 : static_cast<uint32_t>(count);
  return {};
}

Result<> DeviceStore::exchange(Device& device, uint32_t bucket, uint32_t) {
  const FlatInterval where = interval(bucket);
  telemetry::Span span(options_.timeline, "exchange with the other devices", "push");
  span.with("bucket", bucket).with("step", device.step).with("bytes", where.count * sizeof(float));
  if (options_.update_at == UpdateAt::kServers) {
    if (!options_.gradients_are_summed) DT_TRY_VOID(sum(device, bucket));
    return device.group->rank() == kFirst ? servers_->gradient_ready(bucket, device.step, device.samples) : Result<>{};
  }
  DT_TRY_VOID(sum(device, bucket));
  return search_and_update(device, bucket);
}

// Sums the devices' gradients of a bucket. Each element of the sum is stored on the device or devices that update it.
Result<> DeviceStore::sum(Device& device, size_t bucket) const {
  const FlatInterval where = interval(bucket);
  const std::span<float> gradients = device.view.all_gradients.subspan(where.begin, where.count);
  if (options_.update_at == UpdateAt::kReplicas) return device.group->all_reduce(gradients);
  if (options_.update_at == UpdateAt::kShards) return device.group->reduce_scatter(gradients);
  return device.group->reduce(gradients, owner(bucket));
}

// If the devices decide whether a step counts, all updates follow the last sum, which is that of bucket 0.
Result<> DeviceStore::search_and_update(Device& device, size_t bucket) {
  device.updater->search(bucket);
  if (!decides_) return update(device, bucket);
  if (bucket > 0) return {};
  DT_TRY_VOID(agree(device));
  for (size_t b = bucket_count(); b-- > 0;) DT_TRY_VOID(update(device, b));
  return {};
}

// Makes all devices skip the step if one of them has found a bad value. With kReplicas, all see the same sums.
Result<> DeviceStore::agree(const Device& device) const {
  if (is_alone() || options_.update_at == UpdateAt::kReplicas) return {};
  return device.group->all_reduce(device.view.nonfinite);
}

Result<> DeviceStore::update(Device& device, size_t bucket) {
  // With UpdateAt::kOwner, this does nothing on the devices that do not own the bucket.
  device.updater->update(bucket, device.samples);
  if (is_alone()) return {};
  const FlatInterval where = interval(bucket);
  const std::span<float> weights = device.view.all_weights.subspan(where.begin, where.count);
  if (options_.update_at == UpdateAt::kShards) {
    DT_TRY_VOID(device.group->all_gather(weights));
  } else if (options_.update_at != UpdateAt::kReplicas) {
    DT_TRY_VOID(device.group->broadcast(weights, owner(bucket)));
  }
  close(device, bucket);
  return {};
}

Result<> DeviceStore::fetch(Device& device, uint32_t bucket, uint32_t) {
  telemetry::Span span(options_.timeline, "fetch weights", "push");
  span.with("bucket", bucket);
  if (device.group->rank() == kFirst) DT_TRY_VOID(servers_->wait_for_weights(bucket));
  const FlatInterval where = interval(bucket);
  DT_TRY_VOID(device.group->broadcast(device.view.all_weights.subspan(where.begin, where.count), kFirst));
  close(device, bucket);
  return {};
}

void DeviceStore::close(const Device& device, size_t bucket) {
  const MutexLock lock(mutex_);
  is_open({bucket, static_cast<size_t>(&device - devices_.data())}) = false;
  changed_.notify_all();
}

void DeviceStore::decide_on_devices() {
  decides_ = true;
  for (Device& device : devices_) device.updater->decide_on_device();
}

void DeviceStore::settle_step(uint32_t samples, bool counts) {
  const MutexLock lock(mutex_);
  if (!counts) next_step_--;
  const auto processes = static_cast<uint32_t>(ranks() / devices_.size());
  for (Device& device : devices_) device.updater->settle(samples * processes, counts);
}

Result<> DeviceStore::wait_for_weights(DeviceBucket at) {
  const MutexLock lock(mutex_);
  if (error_) return tl::unexpected(*error_);
  if (!is_open(at)) return {};  // also if the group has ended since
  if (broken_) return tl::unexpected(*broken_);
  const Clock::time_point begin = Clock::now();
  const Waits::Wait wait(waits_, [at] { return fmt::format("bucket {} on device {}", at.bucket, at.device); });
  changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return why_not() != nullptr || !is_open(at); });
  if (at.device == 0) wait_s_ += seconds_since(begin);
  if (const Error* why = why_not()) return tl::unexpected(*why);
  return {};
}

// The following functions are called between steps.

template <DeviceStore::Work work>
Result<> DeviceStore::on_all(const char* name, uint32_t samples) {
  {
    const MutexLock lock(mutex_);
    if (const Error* why = why_not()) return tl::unexpected(*why);
    busy_ = devices_.size();
  }
  constexpr Work kReport = &DeviceStore::report<work>;
  for (Device& device : devices_) enqueue<kReport>(device, 0, samples);
  const MutexLock lock(mutex_);
  const Waits::Wait wait(waits_, [name] { return std::string(name) + " on all devices"; });
  changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return why_not() != nullptr || busy_ == 0; });
  if (const Error* why = why_not()) return tl::unexpected(*why);
  return {};
}

template <DeviceStore::Work work>
Result<> DeviceStore::report(Device& device, uint32_t, uint32_t samples) {
  DT_TRY_VOID((this->*work)(device, 0, samples));
  const MutexLock lock(mutex_);
  busy_--;
  changed_.notify_all();
  return {};
}

Result<uint64_t> DeviceStore::next_step() {
  if (!servers_) {
    const MutexLock lock(mutex_);
    return next_step_;
  }
  for (size_t bucket = 0; bucket < bucket_count(); bucket++) DT_TRY_VOID(wait_for_weights(bucket));
  return servers_->next_step();
}

Result<uint64_t> DeviceStore::samples_applied() {
  for (size_t device = 0; device < devices_.size(); device++) DT_TRY_VOID(wait_for_weights({0, device}));
  return servers_ ? servers_->samples_applied() : devices_.front().updater->samples();
}

Result<> DeviceStore::share_statistics(uint64_t samples) {
  if (is_alone()) return {};
  const auto weight = static_cast<uint32_t>(std::min<uint64_t>(samples, UINT32_MAX));
  return on_all<&DeviceStore::average_statistics>("the statistics", weight);
}

Result<> DeviceStore::refresh() {
  return servers_ ? on_all<&DeviceStore::refresh_weights>("the newest weights") : Result<>{};
}

Result<> DeviceStore::refresh_weights(Device& device, uint32_t, uint32_t) {
  if (device.group->rank() == kFirst) DT_TRY_VOID(servers_->refresh());
  return device.group->broadcast(device.view.all_weights, kFirst);
}

// Averages the moving statistics. They are linear in what they average, so their mean now equals the result of
// averaging in every step.
Result<> DeviceStore::average_statistics(Device& device, uint32_t, uint32_t samples) {
  const std::span<float> statistics = device.view.all_statistics;
  DT_TRY_VOID(device.group->all_reduce(statistics));
  const float share = 1.0F / static_cast<float>(ranks());
  std::vector<float> mean(statistics.size());
  DT_TRY_VOID(read_array(device.view.device, statistics, mean));
  for (float& value : mean) value *= share;
  DT_TRY_VOID(write_array(device.view.device, mean, statistics));
  if (!servers_) return {};
  if (device.group->rank() == kFirst) DT_TRY_VOID(servers_->share_statistics(samples));
  return device.group->broadcast(statistics, kFirst);
}

// Needs no lock, because the exchange threads are idle at this point.
Result<> DeviceStore::set_rate(const RateChange& change, bool for_servers) {
  if (servers_) return servers_->set_rate(change, for_servers);
  for (Device& device : devices_) device.updater->set_rate_factor(change.factor);
  return {};
}

Result<> DeviceStore::read_state(TrainingState& state) {
  if (servers_) return servers_->read_state(state);
  // The first device comes last, so that the result has its counters and, with replicas, its state.
  for (auto device = devices_.rbegin(); device != devices_.rend(); ++device) {
    DT_TRY_VOID(device->updater->read_state(state));
  }
  return {};
}

void DeviceStore::cancel(Error error) {
  {
    const MutexLock lock(mutex_);
    if (!error_) error_ = error;
    changed_.notify_all();
  }
  cancel_group(error);
  if (servers_) servers_->cancel(std::move(error));
}

void DeviceStore::cancel_group(const Error& error) {
  const MutexLock lock(group_mutex_);
  if (first_group_ != nullptr) first_group_->cancel(error);
}

std::optional<Error> DeviceStore::error() const {
  const MutexLock lock(mutex_);
  const Error* why = why_not();
  return why == nullptr ? std::nullopt : std::optional(*why);
}

StoreTimes DeviceStore::times() const {
  const bool spans_processes = !servers_ && ranks() > devices_.size();
  const std::optional<Traffic> none = spans_processes ? std::nullopt : std::optional(Traffic{});
  const std::optional<Traffic> traffic = servers_ ? servers_->times().traffic : none;
  const MutexLock lock(mutex_);
  return {.wait_s = wait_s_, .traffic = traffic};
}

double DeviceStore::update_seconds() const {
  return is_alone() && !devices_.empty() ? devices_.front().updater->seconds() : 0;
}

}  // namespace dtrain::kvstore
