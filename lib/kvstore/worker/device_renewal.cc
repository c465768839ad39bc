// Making the group of a DeviceStore anew after it has lost a member, or when workers join. Updates happen bucket by
// bucket, so the members may differ in whole buckets: the newest of each bucket is copied to all.
#include <algorithm>
#include <cmath>

#include "kvstore/worker/device_store.h"

namespace dtrain::kvstore {

// What every rank knows of its buckets, in one array that the ranks add up: each fills in its own row. Numbers are
// divided into digits that a float holds exactly.
struct DeviceStore::RankTable {
  static constexpr uint64_t kBase = uint64_t{1} << 22;
  static constexpr size_t kDigits = 3;
  // Of a bucket: its updates, one more than made, or 0 on a new worker; and its samples.
  static constexpr size_t kNumbers = 2;

  RankTable(uint32_t ranks, size_t buckets)
      : ranks(ranks), row(buckets * kNumbers * kDigits), digits(size_t{ranks} * row, 0.0F) {}

  void set(uint32_t rank, size_t bucket, size_t which, uint64_t number) {
    for (size_t i = 0; i < kDigits; i++, number /= kBase) {
      digits[at(rank, bucket, which) + i] = static_cast<float>(number % kBase);
    }
  }
  [[nodiscard]] uint64_t number(uint32_t rank, size_t bucket, size_t which) const {
    uint64_t number = 0;
    for (size_t i = kDigits; i-- > 0;) {
      number = number * kBase + static_cast<uint64_t>(std::lround(digits[at(rank, bucket, which) + i]));
    }
    return number;
  }
  [[nodiscard]] uint64_t version(uint32_t rank, size_t bucket) const { return number(rank, bucket, 0); }
  [[nodiscard]] bool is_new(uint32_t rank) const { return version(rank, 0) == 0; }
  // The lowest rank that has the newest version of the bucket.
  [[nodiscard]] uint32_t newest(size_t bucket) const {
    uint32_t newest = 0;
    for (uint32_t rank = 1; rank < ranks; rank++) {
      if (version(rank, bucket) > version(newest, bucket)) newest = rank;
    }
    return newest;
  }
  [[nodiscard]] bool differs(size_t bucket) const {
    for (uint32_t rank = 1; rank < ranks; rank++) {
      if (version(rank, bucket) != version(0, bucket)) return true;
    }
    return false;
  }

  const uint32_t ranks;
  const size_t row;
  std::vector<float> digits;

 private:
  [[nodiscard]] size_t at(uint32_t rank, size_t bucket, size_t which) const {
    return rank * row + (bucket * kNumbers + which) * kDigits;
  }
};

// The servers' part comes first: see forget_requests().
void DeviceStore::break_up(Error why) {
  if (servers_) links()->break_up(why);
  end_group(why);
}

void DeviceStore::end_group(const Error& why) {
  {
    const MutexLock lock(mutex_);
    if (broken_) return;
    broken_ = why;
    changed_.notify_all();
  }
  cancel_group(why);
}

std::vector<uint32_t> DeviceStore::members() const {
  const MutexLock lock(mutex_);
  return members_;
}

bool DeviceStore::is_broken() const {
  const MutexLock lock(mutex_);
  return !error_ && (servers_ ? links()->is_broken() : broken_.has_value());
}

// The exchange threads end by themselves, because the group is canceled or idle.
void DeviceStore::close_group() {
  for (Device& device : devices_) device.exchanges.reset();
  {
    const MutexLock lock(group_mutex_);
    first_group_ = nullptr;
  }
  for (Device& device : devices_) device.group.reset();
}

// The group of devices has ended when an exchange in it needed a server. While servers are missing, the new one is
// ended too.
void DeviceStore::forget_requests() {
  if (is_broken()) end_group({Code::kPeerLost, "a server was lost", {}});
  close_group();
  links()->forget_requests();
  {
    const MutexLock lock(mutex_);
    if (!links()->is_broken()) broken_.reset();
  }
  auto group = options_.make_group({});
  if (!group) return cancel(group.error());
  take(std::move(*group));
}

// The old connections are closed first, so that nobody can take a late message of the old group for one of the new.
Result<> DeviceStore::renew(const std::vector<uint32_t>& members) {
  close_group();
  {
    const MutexLock lock(mutex_);
    if (error_) return tl::unexpected(*error_);
    broken_.reset();
    members_ = members;
  }
  auto group = options_.make_group(members);
  if (!group && group.error().code == Code::kPeerLost) break_up(group.error());
  if (!group) return tl::unexpected(std::move(group).error());
  take(std::move(*group));
  if (!is_alone()) DT_TRY_VOID(on_all<&DeviceStore::adopt_newest>("the weights of the other workers"));
  if (is_alone() && is_new_) return fail(Code::kPeerLost, "the workers that had the weights were lost");
  is_new_ = false;
  uint64_t oldest = devices_.front().updater->counters(0).updates, newest = oldest;
  for (size_t b = 1; b < bucket_count(); b++) {
    const uint64_t updates = devices_.front().updater->counters(b).updates;
    oldest = std::min(oldest, updates);
    newest = std::max(newest, updates);
  }
  has_part_of_step_ = oldest < newest;
  const MutexLock lock(mutex_);
  next_step_ = oldest;
  return {};
}

// Until all arrays are here, this worker is like one that has just joined.
Result<> DeviceStore::go_back(std::span<const ParameterView> devices, const TrainingState& state, uint32_t giver) {
  const std::vector<uint32_t> all = members();
  const auto at = std::ranges::find(all, giver);
  if (at == all.end()) return fail(Code::kInternal, "worker {} has the weights, but is not in the group", giver);
  const auto index = static_cast<size_t>(at - all.begin());
  const bool gives = is_alone() || devices_.front().group->rank() / devices_.size() == index;
  is_new_ = !gives;
  DT_TRY_VOID(bind(devices, state));
  if (is_alone()) return {};
  DT_TRY_VOID(on_all<&DeviceStore::start>("the earlier weights", static_cast<uint32_t>(index * devices_.size())));
  is_new_ = false;
  return {};
}

Result<> DeviceStore::adopt_newest(Device& device, uint32_t, uint32_t) {
  RankTable table(device.group->size(), bucket_count());
  const uint32_t rank = device.group->rank();
  for (size_t b = 0; b < bucket_count(); b++) {
    const Counters& counters = device.updater->counters(b);
    table.set(rank, b, 0, is_new_ ? 0 : counters.updates + 1);
    table.set(rank, b, 1, counters.samples);
  }
  DT_TRY_VOID(device.group->all_reduce(table.digits));
  if (table.is_new(table.newest(0))) return fail(Code::kPeerLost, "the workers that had the weights were lost");
  for (size_t b = 0; b < bucket_count(); b++) DT_TRY_VOID(adopt_bucket(device, b, table));
  return adopt_statistics(device, table);
}

// Weights, state and counters change together or not at all: if the rank with the newest is lost meanwhile, the others
// still have their own version.
Result<> DeviceStore::adopt_bucket(Device& device, size_t bucket, const RankTable& table) {
  if (!table.differs(bucket)) return {};
  const uint32_t newest = table.newest(bucket);
  const FlatInterval where = interval(bucket);
  std::vector<std::span<float>> arrays = {device.view.all_weights.subspan(where.begin, where.count)};
  device.updater->for_each_slot(bucket, [&](std::span<float> slot) { arrays.push_back(slot); });
  std::vector<float> all;
  for (const std::span<float> array : arrays) all.insert(all.end(), array.begin(), array.end());
  DT_TRY_VOID(device.group->broadcast(all, newest));
  std::span<const float> rest = all;
  for (const std::span<float> array : arrays) {
    std::ranges::copy(rest.first(array.size()), array.begin());
    rest = rest.subspan(array.size());
  }
  Counters counters = device.updater->counters(bucket);
  counters.updates = table.version(newest, bucket) - 1;
  counters.samples = table.number(newest, bucket, 1);
  device.updater->set_counters(bucket, counters);
  return {};
}

// Between two ends of an epoch, every worker has moving statistics of its own, so only a new worker takes over others.
Result<> DeviceStore::adopt_statistics(const Device& device, const RankTable& table) {
  uint32_t first_old = 0;
  while (table.is_new(first_old)) first_old++;
  bool some_are_new = false;
  for (uint32_t rank = 0; rank < table.ranks; rank++) some_are_new = some_are_new || table.is_new(rank);
  if (!some_are_new) return {};
  const bool keeps_own = !is_new_ && device.group->rank() != first_old;
  std::vector<float> unused(keeps_own ? device.view.all_statistics.size() : 0);
  return device.group->broadcast(keeps_own ? std::span<float>(unused) : device.view.all_statistics, first_old);
}

}  // namespace dtrain::kvstore
