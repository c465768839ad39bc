#include "role/setup/setup.h"

#include <algorithm>
#include <map>
#include <thread>

#include "base/file.h"
#include "data/synthetic.h"
#include "exec/device_group.h"
#include "graph/models/models.h"
#include "job/resolve/augmentation.h"
#include "job/resolve/data_set.h"
#include "kvstore/worker/buckets.h"
#include "sync/grouping.h"

namespace dtrain::role {

namespace {

// Refuses --initializer for a network whose parameters have initial values of their own.
Result<> check_initializer(const job::JobFlags& flags, const graph::Shapes& shapes) {
  if (flags.network.initializer == "default") return {};
  for (const graph::ParameterInfo& parameter : shapes.parameters) {
    if (!parameter.rule.initial) continue;
    return fail(Code::kUsage,
                "--initializer {}: network '{}' brings the initial values of '{}' and others: --initializer default",
                flags.network.initializer, flags.network.network, parameter.name);
  }
  return {};
}

}  // namespace

Result<Network> build_network(const job::JobFlags& flags) {
  const Shape& image = flags.network.image_shape;
  DT_TRY(graph::Graph graph, graph::build_model({.network = flags.network.network,
                                                 .num_layers = flags.network.num_layers,
                                                 .num_classes = flags.network.num_classes,
                                                 .image = image,
                                                 .bn_momentum = flags.network.bn_momentum,
                                                 .data_type = flags.augment.data_type,
                                                 .widen_factor = flags.network.widen_factor}));
  DT_TRY(graph::Shapes shapes, graph::infer_shapes(graph, image), "building network '{}' for images {}",
         flags.network.network, to_string(image));
  DT_TRY_VOID(check_initializer(flags, shapes));
  return Network{std::move(graph), std::move(shapes)};
}

optim::OptimizerSpec optimizer_spec(const job::JobFlags& flags) {
  return {.name = flags.optimizer.optimizer,
          .momentum = flags.optimizer.momentum,
          .weight_decay = flags.optimizer.weight_decay,
          .clip_gradient = flags.optimizer.clip_gradient};
}

optim::ScheduleSpec schedule_spec(const job::JobFlags& flags) {
  return {.base = flags.optimizer.lr,
          .factor = flags.optimizer.lr_factor.value_or(1),
          .step_epochs = flags.optimizer.lr_step_epochs,
          .every_epochs = flags.optimizer.lr_factor_epoch};
}

kvstore::UpdateRule update_rule(const job::JobFlags& flags, const job::JobPlan& plan) {
  return {.optimizer = optimizer_spec(flags),
          .schedule = schedule_spec(flags),
          .samples_per_epoch = plan.samples_per_epoch};
}

kvstore::StalenessWeight staleness_weight(const job::JobFlags& flags) {
  using Rule = kvstore::StalenessWeight::Rule;
  if (job::store_of(flags).scheme != job::Scheme::kGsp) return {};
  const job::GspWeight& weight = flags.scheme.gsp_weight;
  switch (weight.rule) {
    case job::GspWeight::Rule::kNone: return {};
    case job::GspWeight::Rule::kInverse: return {Rule::kPower, 1};
    case job::GspWeight::Rule::kPower: return {Rule::kPower, weight.parameter};
    case job::GspWeight::Rule::kFloor: return {Rule::kFloor, weight.parameter};
  }
  return {};
}

std::vector<uint64_t> key_sizes(const graph::Shapes& shapes) {
  std::vector<uint64_t> sizes;
  for (const auto* infos : {&shapes.parameters, &shapes.statistics}) {
    for (const graph::ParameterInfo& info : *infos) sizes.push_back(static_cast<uint64_t>(element_count(info.shape)));
  }
  return sizes;
}

Result<InitializerSpec> initializer_spec(const job::JobFlags& flags) {
  const std::string& name = flags.network.initializer;
  return optim::parse_initializer(name == "default" ? "xavier(gaussian,in,2)" : name);
}

Result<> initialize(const job::JobFlags& flags, const ParameterView& view) {
  DT_TRY(const InitializerSpec spec, initializer_spec(flags), "reading --initializer");
  return optim::initialize(spec, view, flags.seed.value());
}

namespace {

data::ColorDistortion color_distortion_of(const job::AugmentFlags& augment) {
  return {.brightness = augment.brightness,
          .contrast = augment.contrast,
          .saturation = augment.saturation,
          .h_max = static_cast<int>(augment.max_random_h),
          .s_max = static_cast<int>(augment.max_random_s),
          .l_max = static_cast<int>(augment.max_random_l),
          .pca_noise = augment.pca_noise};
}

}  // namespace

data::Distortion distortion_of(const job::AugmentFlags& augment) {
  const job::AspectRange aspect = job::aspect_range(augment);
  return {.interpolation = static_cast<data::Interpolation>(augment.inter_method),
          .resize = static_cast<int>(augment.resize),
          .rotate_max = static_cast<int>(augment.max_random_rotate_angle),
          .rotate = static_cast<int>(augment.rotate),
          .rotate_list = {augment.rotate_list.begin(), augment.rotate_list.end()},
          .shear_max = augment.max_random_shear_ratio,
          .scale = {augment.min_random_scale, augment.max_random_scale},
          .aspect = {aspect.min, aspect.max},
          .img_size_min = augment.min_img_size,
          .img_size_max = augment.max_img_size,
          .pad = static_cast<int>(augment.pad_size),
          .fill_value = static_cast<int>(augment.fill_value),
          .random_crop = augment.random_crop,
          .random_resized_crop = augment.random_resized_crop,
          .area = {augment.min_random_area, augment.max_random_area},
          .crop_size_min = static_cast<int>(augment.min_crop_size),
          .crop_size_max = static_cast<int>(augment.max_crop_size),
          .color = color_distortion_of(augment),
          .random_mirror = augment.random_mirror,
          .random_contrast = augment.max_random_contrast,
          .random_illumination = augment.max_random_illumination};
}

namespace {

data::DataOptions data_options(const job::Flags& flags) {
  const job::AugmentFlags& augment = flags.job.augment;
  const auto floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  data::DataOptions options;
  options.data_dir = flags.data.data_dir;
  options.data_type = augment.data_type;
  options.data_train = flags.data.data_train;
  options.data_val = flags.data.data_val;
  options.data_train_idx = flags.data.data_train_idx;
  options.data_val_idx = flags.data.data_val_idx;
  options.image_shape = flags.job.network.image_shape;
  options.rgb_mean = floats(augment.rgb_mean);
  options.rgb_std = floats(augment.rgb_std);
  options.mean_img = flags.data.mean_img;
  if (augment.scale) options.scale = static_cast<float>(*augment.scale);
  options.mirror = augment.mirror;
  options.training = distortion_of(augment);
  options.val_resize = static_cast<int>(augment.val_resize);
  options.threads = plan_threads(flags).decode;
  return options;
}

// Batches per epoch and worker: --num-batches, else as many as the real data set would fill.
int64_t synthetic_batches(const job::JobFlags& flags) {
  if (flags.augment.num_batches > 0) return flags.augment.num_batches;
  const job::DataSet* set = job::find_data_set(flags.augment.data_type);
  const int64_t examples = flags.augment.num_examples > 0 ? flags.augment.num_examples
                           : set != nullptr               ? set->records_train
                                                          : 0;
  return std::max<int64_t>(1, examples / flags.batch_size / flags.num_workers);
}

}  // namespace

Result<std::vector<data::IndexedFile>> record_files(const job::Flags& flags) {
  if (flags.job.augment.benchmark) return std::vector<data::IndexedFile>{};
  return data::record_files(data_options(flags));
}

Result<data::DataSets> open_data(const job::Flags& flags, uint32_t rank, const Log& log, data::KnownOffsets known) {
  if (!flags.job.augment.benchmark) {
    data::DataOptions options = data_options(flags);
    options.known = std::move(known);
    return data::open_dataset(options, log);
  }
  // One data set for all workers, so that shares work as usual. Each worker draws its own data into its share.
  const data::SyntheticOptions options{.image = flags.job.network.image_shape,
                                       .classes = flags.job.network.num_classes,
                                       .batch_size = flags.job.batch_size,
                                       .batches = synthetic_batches(flags.job) * flags.job.num_workers,
                                       .seed = flags.job.seed.value_or(0),
                                       .rank = rank};
  return data::DataSets{
      .train = data::synthetic(options), .validation = nullptr, .type = {}, .classes = flags.job.network.num_classes};
}

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
              "{} needs the groups of its workers: {}. --groups-file names the file; --ungrouped own without one makes "
              "each worker a group",
              flags.job.scheme.kv_store, text.error().message);
}

namespace {

// The largest share in each worker's group, by rank.
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

constexpr int64_t kRecordsMax = 1'000'000'000'000;  // --num-examples has the same limit

// ceil(share * examples / records). The product of two numbers of up to 10^12 does not fit into 64 bits.
int64_t scaled_up(int64_t share, int64_t examples, int64_t records) {
  return static_cast<int64_t>((static_cast<__int128>(share) * examples + records - 1) / records);
}

// A worker may report any number.
Result<> check_records(int64_t records, const char* kind) {
  if (records >= 0 && records <= kRecordsMax) return {};
  return fail(Code::kUsage, "worker 0 reports {} {} records; a job has {} at most", static_cast<uint64_t>(records),
              kind, kRecordsMax);
}

}  // namespace

Result<PassPlan> plan_passes(const job::JobSpec& spec, int64_t records, const std::vector<data::Fraction>& sharding) {
  const job::JobFlags& flags = spec.flags;
  const std::vector<data::Share> shares =
      sharding.empty() ? data::equal_shares(records, flags.num_workers) : data::shares_of(sharding, records);
  PassPlan plan;
  for (size_t rank = 0; rank < shares.size(); rank++) {
    if (shares[rank].size() == 0) {
      return fail(Code::kUsage, "worker {} of {} would get none of the {} training records: {}", rank,
                  flags.num_workers, records, sharding.empty() ? "use fewer workers" : "give it a larger share");
    }
    plan.shares.push_back({shares[rank].begin, shares[rank].end});
  }
  // --num-examples replaces the number of records here, in the length of a pass, and nowhere else.
  const int64_t examples = flags.augment.num_examples;
  for (int64_t share : largest_in_group(shares, job::plan_of(spec).policy.group_of)) {
    if (examples > 0) share = std::max<int64_t>(1, scaled_up(share, examples, records));
    plan.batches.push_back(data::batches_per_epoch(share, flags.batch_size));
  }
  return plan;
}

Result<job::JobPlan> complete_spec(int64_t records_train, int64_t records_val,
                                   const std::vector<data::Fraction>& sharding, job::JobSpec& spec) {
  if (spec.flags.scheme.regroup_every > 0 && spec.flags.num_workers > sync::kGroupingWorkersMax) {
    return fail(Code::kUsage, "--regroup-every: at most {} workers can be grouped by their speeds, the job has {}",
                sync::kGroupingWorkersMax, spec.flags.num_workers);
  }
  DT_TRY_VOID(check_records(records_train, "training"));
  DT_TRY_VOID(check_records(records_val, "validation"));
  spec.records_train = records_train;
  spec.records_val = records_val;
  DT_TRY(PassPlan plan, plan_passes(spec, records_train, sharding));
  spec.shares = std::move(plan.shares);
  spec.batches = std::move(plan.batches);
  return job::plan_of(spec);
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
  std::map<sync::Group, std::pair<size_t, size_t>> range_of;  // the workers with the smallest and the largest share
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
         " wait for each other and have unequal shares, of which the smaller ones come round again before the "
         "larger ones are through. Line r of the file is the share of rank r; files made for MXNet-G are in "
         "descending order of IP strings";
}

namespace {

// A warning if the smallest share does not fill a batch.
std::string small_share(const job::JobSpec& spec) {
  const auto size_of = [](const job::Interval& share) { return share.end - share.begin; };
  const auto smallest = std::ranges::min_element(spec.shares, {}, size_of);
  const int64_t batch = spec.flags.batch_size;
  if (smallest == spec.shares.end() || size_of(*smallest) >= batch) return {};
  return fmt::format(
      "a batch of {} is larger than the {} records of worker {}: a step takes records more than once, and an epoch is "
      "one step or few; --batch-size {} fits",
      batch, size_of(*smallest), smallest - spec.shares.begin(), size_of(*smallest));
}

std::string no_validation(const job::JobSpec& spec) {
  if (spec.records_val > 0 || spec.flags.augment.benchmark) return {};
  return "no validation data: the accuracy in the log is that of the training data; --data-val names records to "
         "validate with";
}

}  // namespace

std::vector<std::string> data_hints(const job::JobSpec& spec, const job::JobPlan& plan) {
  std::vector<std::string> hints = {unequal_shares(spec, plan), small_share(spec), no_validation(spec)};
  std::erase(hints, "");
  return hints;
}

job::Faults own_faults(const job::Flags& flags, uint32_t rank) {
  const job::Role role = flags.launch.role == job::Role::kNone ? job::Role::kWorker : flags.launch.role;
  return flags.wire.inject.of({role, rank});
}

Type type_of(const job::JobFlags& flags) {
  if (flags.dtype == type_name(Type::kFloat16)) return Type::kFloat16;
  return flags.dtype == type_name(Type::kBfloat16) ? Type::kBfloat16 : Type::kFloat32;
}

std::shared_ptr<const Normalisation> normalisation_of_batches(const job::Flags& flags, const data::Dataset& data) {
  return flags.device.gpus.empty() ? nullptr : data.normalisation();
}

size_t device_count(const job::Flags& flags) {
  return static_cast<size_t>(flags.device.count());
}

Result<std::vector<int64_t>> device_batches(const job::Flags& flags) {
  std::vector<double> weights = flags.device.work_load_list;
  if (weights.empty()) weights.assign(device_count(flags), 1.0);
  return exec::split_batch(flags.job.batch_size, weights);
}

std::vector<size_t> plan_buckets(const job::Flags& flags, const Network& network) {
  if (device_count(flags) == 1 && !flags.distributed()) return {0};
  std::vector<uint64_t> sizes = key_sizes(network.shapes);
  sizes.resize(network.shapes.parameters.size());
  return kvstore::plan_buckets(sizes);
}

bool parameters_on_device(const job::Flags& flags) {
  if (flags.device.gpus.empty()) return false;
  return !flags.distributed() || job::store_of(flags.job).sum == job::Sum::kNccl;
}

ThreadPlan plan_threads(const job::Flags& flags) {
  int64_t threads = flags.launch.threads;
  if (threads == 0) {
    const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
    // The processes of a job on one host share its cores. The scheduler is not counted: it needs next to nothing.
    const int64_t roles = flags.launch.role == job::Role::kNone ? 1
                          : flags.launch.host_roles > 0         ? flags.launch.host_roles
                                                                : flags.job.num_workers + flags.job.num_servers;
    threads = std::max<int64_t>(1, cores / roles);
  }
  ThreadPlan plan;
  plan.compute = static_cast<int>(threads);
  plan.device = std::max(1, plan.compute / static_cast<int>(device_count(flags)));
  plan.decode =
      static_cast<int>(flags.data.data_threads > 0 ? flags.data.data_threads : std::max<int64_t>(1, threads / 2));
  return plan;
}

}  // namespace dtrain::role
