#include "role/setup/shares.h"

#include <algorithm>
#include <map>

#include "base/file.h"
#include "sync/grouping.h"

namespace dtrain::role {

Result<std::vector<data::Fraction>> read_sharding(const job::Flags& flags) {
  if (!flags.job.scheme.data_allocator) return std::vector<data::Fraction>{};
  const std::string& name = flags.launch.data_sharding_file;
  const Result<std::string> text = read_file(name);
  if (!text) return fail(Code::kUsage, "--data-allocator 1: --data-sharding-file: {}", text.error().message);
  DT_TRY(std::vector<data::Fraction> shares,
         data::parse_sharding_file(
             *text, {.name = name, .workers = flags.job.num_workers, .allow_gaps = flags.job.scheme.allow_gaps}),
         "reading the shares of {} workers (`dtrain plan` with the flags of this job writes them)",
         flags.job.num_workers);
  return shares;
}

Result<std::optional<job::GroupsFile>> read_groups(const job::Flags& flags) {
  if (job::store_of(flags.job).scheme != job::Scheme::kGsp) return std::nullopt;
  const std::string& name = flags.launch.groups_file;
  Result<std::string> text = read_file(name);
  if (text) return job::GroupsFile{name, *std::move(text)};
  const bool needed = flags.given("groups-file") || flags.job.scheme.ungrouped == job::Ungrouped::kError;
  if (!needed && text.error().code == Code::kNotFound) return job::GroupsFile{name, ""};
  return fail(Code::kUsage,
              "{} needs the groups of the workers: {}. Name the file with --groups-file, or give --ungrouped own, "
              "which makes each worker its own group",
              flags.job.scheme.kv_store, text.error().message);
}

namespace {

// The size of the largest share in each worker's group, indexed by rank.
std::vector<int64_t> largest_in_group(const std::vector<data::Share>& shares,
                                      const std::vector<sync::Group>& group_of) {
  std::map<sync::Group, int64_t> largest;
  for (size_t rank = 0; rank < shares.size(); rank++) {
    int64_t& size = largest[group_of[rank]];
    size = std::max(size, shares[rank].size());
  }
  std::vector<int64_t> by_rank;
  by_rank.reserve(group_of.size());
  for (const sync::Group group : group_of) by_rank.push_back(largest.at(group));
  return by_rank;
}

constexpr int64_t kRecordsMax = 1'000'000'000'000;  // the largest number of records; --num-examples has the same limit

// ceil(share * examples / records). The product of two numbers of up to 10^12 does not fit into 64 bits.
int64_t scaled_up(int64_t share, int64_t examples, int64_t records) {
  return static_cast<int64_t>((static_cast<__int128>(share) * examples + records - 1) / records);
}

// Checks a number of records, because a worker may report any number.
Result<> check_records(int64_t records, const char* kind) {
  if (records >= 0 && records <= kRecordsMax) return {};
  return fail(Code::kUsage, "worker 0 reports {} {} records, but a job can have at most {}",
              static_cast<uint64_t>(records), kind, kRecordsMax);
}

}  // namespace

namespace {

std::vector<data::Share> wanted_shares(const job::JobSpec& spec, int64_t records,
                                       const std::vector<data::Fraction>& sharding) {
  return sharding.empty() ? data::equal_shares(records, spec.flags.num_workers) : data::shares_of(sharding, records);
}

Result<PassPlan> passes_over(const std::vector<data::Share>& shares, const job::JobSpec& spec, const job::JobPlan& plan,
                             int64_t records) {
  const job::JobFlags& flags = spec.flags;
  PassPlan passes;
  for (size_t rank = 0; rank < shares.size(); rank++) {
    if (shares[rank].size() == 0) {
      return fail(Code::kUsage, "worker {} of {} would get none of the {} training records: {}", rank,
                  flags.num_workers, records,
                  flags.scheme.data_allocator ? "give this worker a larger share" : "use fewer workers");
    }
    passes.shares.push_back({shares[rank].begin, shares[rank].end});
  }
  // --num-examples replaces the number of records only here, in the length of a pass. Synthetic data already have that
  // number of records, in whole batches.
  const int64_t examples = flags.augment.benchmark ? 0 : flags.augment.num_examples;
  for (int64_t share : largest_in_group(shares, plan.policy.group_of)) {
    if (examples > 0) share = std::max<int64_t>(1, scaled_up(share, examples, records));
    passes.batches.push_back(data::batches_per_epoch(share, flags.batch_size));
  }
  return passes;
}

// The size of the share of the worker with this rank; of one that has joined later: that of an average worker.
double share_size(const job::JobSpec& spec, uint32_t rank) {
  const auto size = [](const job::Interval& share) { return static_cast<double>(share.end - share.begin); };
  if (rank < spec.shares.size()) return size(spec.shares[rank]);
  double all = 0;
  for (const job::Interval& share : spec.shares) all += size(share);
  return all / static_cast<double>(spec.shares.size());
}

// The new number of each group that has a worker in `live`, in the order of the old numbers.
std::map<int64_t, int64_t> numbers_of_groups(const std::vector<int64_t>& groups, const std::vector<uint32_t>& live) {
  std::map<int64_t, int64_t> numbers;
  for (const uint32_t rank : live) numbers[groups[rank]] = 0;
  int64_t number = 0;
  for (auto& [group, now] : numbers) now = number++;
  return numbers;
}

}  // namespace

Result<job::JobSpec> spec_of_live(const job::JobSpec& spec, const std::vector<uint32_t>& live) {
  job::JobSpec now = spec;
  const auto workers = static_cast<int64_t>(live.size());
  now.flags.num_workers = workers;
  now.flags.scheme.backup = std::min(spec.flags.scheme.backup, workers - 1);
  if (!spec.groups.empty()) {
    const std::vector<int64_t> groups = job::groups_of_seats(spec);
    std::map<int64_t, int64_t> numbers = numbers_of_groups(groups, live);
    now.groups.clear();
    for (const uint32_t rank : live) now.groups.push_back(numbers[groups[rank]]);
  }
  std::vector<double> sizes;
  sizes.reserve(live.size());
  for (const uint32_t rank : live) sizes.push_back(share_size(spec, rank));
  const std::vector<data::Share> shares = spec.flags.scheme.data_allocator
                                              ? data::shares_by_speed(spec.records_train, sizes)
                                              : data::equal_shares(spec.records_train, workers);
  DT_TRY(PassPlan passes, passes_over(shares, now, job::plan_of(now), spec.records_train));
  now.shares = std::move(passes.shares);
  now.batches = std::move(passes.batches);
  return now;
}

Result<PassPlan> plan_passes(const job::JobSpec& spec, const job::JobPlan& plan, int64_t records,
                             const std::vector<data::Fraction>& sharding) {
  return passes_over(wanted_shares(spec, records, sharding), spec, plan, records);
}

Result<job::JobPlan> complete_spec(int64_t records_train, int64_t records_val,
                                   const std::vector<data::Fraction>& sharding, job::JobSpec& spec) {
  if (spec.flags.scheme.regroup_every > 0 && spec.flags.num_workers > sync::kGroupingWorkersMax) {
    return fail(Code::kUsage, "--regroup-every: at most {} workers can be grouped by their speeds, but the job has {}",
                sync::kGroupingWorkersMax, spec.flags.num_workers);
  }
  DT_TRY_VOID(check_records(records_train, "training"));
  DT_TRY_VOID(check_records(records_val, "validation"));
  spec.records_train = records_train;
  spec.records_val = records_val;
  job::JobPlan plan = job::plan_of(spec);
  DT_TRY(PassPlan passes, plan_passes(spec, plan, records_train, sharding));
  spec.shares = std::move(passes.shares);
  spec.batches = std::move(passes.batches);
  job::add_epochs(spec, plan);
  return plan;
}

data::Share share_of(const job::JobSpec& spec, uint32_t rank, int64_t epoch) {
  const int64_t every = spec.flags.scheme.resplit_every;
  if (every == 0) return {spec.shares[rank].begin, spec.shares[rank].end};
  std::vector<data::Share> shares;
  for (const job::Interval& share : spec.shares) shares.push_back({share.begin, share.end});
  return data::rotated(shares, epoch / every)[rank];
}

std::string unequal_shares(const job::JobSpec& spec, const job::JobPlan& plan) {
  const std::vector<sync::Group>& group_of = plan.policy.group_of;
  const auto size_of = [&](size_t rank) { return spec.shares[rank].end - spec.shares[rank].begin; };
  // The workers with the smallest and the largest share in each group.
  std::map<sync::Group, std::pair<size_t, size_t>> range_of;
  for (size_t rank = 0; rank < group_of.size(); rank++) {
    auto& [smallest, largest] = range_of.try_emplace(group_of[rank], rank, rank).first->second;
    if (size_of(rank) < size_of(smallest)) smallest = rank;
    if (size_of(rank) > size_of(largest)) largest = rank;
  }
  std::string text;
  for (const auto& [group, ranks] : range_of) {
    const auto& [smallest, largest] = ranks;
    if (size_of(largest) - size_of(smallest) <= 1) continue;
    text += fmt::format("{}workers {} ({} records) and {} ({} records)", text.empty() ? "" : ", ", smallest,
                        size_of(smallest), largest, size_of(largest));
  }
  if (text.empty()) return {};
  return text +
         " wait for each other but have unequal shares, so smaller shares are read again before larger shares have "
         "been read once. Line r of the file is the share of rank r; in files made for MXNet-G, the lines are in "
         "descending order of the workers' IP addresses as strings";
}

namespace {

// Returns a warning if the smallest share does not fill a batch.
std::string small_share(const job::JobSpec& spec) {
  const auto size_of = [](const job::Interval& share) { return share.end - share.begin; };
  const auto smallest = std::ranges::min_element(spec.shares, {}, size_of);
  const int64_t batch = spec.flags.batch_size;
  if (smallest == spec.shares.end() || size_of(*smallest) >= batch) return {};
  return fmt::format(
      "the batch size {} is larger than the {} records of worker {}, so a step uses records more than once, and an "
      "epoch has only one step or a few; --batch-size {} fits",
      batch, size_of(*smallest), smallest - spec.shares.begin(), size_of(*smallest));
}

std::string no_validation(const job::JobSpec& spec) {
  if (spec.records_val > 0 || spec.flags.augment.benchmark) return {};
  return "there are no validation data, so the accuracy in the log is that of the training data; to validate, name "
         "records with --data-val";
}

}  // namespace

std::vector<std::string> data_hints(const job::JobSpec& spec, const job::JobPlan& plan) {
  std::vector<std::string> hints = {unequal_shares(spec, plan), small_share(spec), no_validation(spec)};
  std::erase(hints, "");
  return hints;
}

}  // namespace dtrain::role
