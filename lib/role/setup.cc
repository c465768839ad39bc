#include "role/setup.h"

#include <algorithm>
#include <thread>

#include "data/synthetic.h"
#include "exec/device_group.h"
#include "graph/models/models.h"
#include "job/data_set.h"
#include "kvstore/buckets.h"

namespace dtrain::role {

Result<Network> build_network(const job::JobFlags& flags) {
  const Shape& image = flags.network.image_shape;
  DT_TRY(graph::Graph graph, graph::build_model({.network = flags.network.network,
                                                 .num_layers = flags.network.num_layers,
                                                 .num_classes = flags.network.num_classes,
                                                 .image = image,
                                                 .bn_momentum = flags.network.bn_momentum}));
  DT_TRY(graph::Shapes shapes, graph::infer_shapes(graph, image), "building network '{}' for images {}",
         flags.network.network, to_string(image));
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

kvstore::UpdateRule update_rule(const job::JobSpec& spec) {
  return {.optimizer = optimizer_spec(spec.flags),
          .schedule = schedule_spec(spec.flags),
          .samples_per_epoch = samples_per_epoch(spec)};
}

bool servers_only_sum(const job::JobFlags& flags) {
  const job::Store store = job::store_of(flags);
  return store.servers && store.update == job::Update::kWorker;
}

std::vector<uint64_t> key_sizes(const graph::Shapes& shapes) {
  std::vector<uint64_t> sizes;
  for (const auto* infos : {&shapes.parameters, &shapes.statistics}) {
    for (const graph::ParameterInfo& info : *infos) sizes.push_back(static_cast<uint64_t>(element_count(info.shape)));
  }
  return sizes;
}

Result<optim::InitializerSpec> initializer_spec(const job::JobFlags& flags) {
  const std::string& name = flags.network.initializer;
  return optim::parse_initializer(name == "default" ? "xavier(gaussian,in,2)" : name);
}

Result<> initialize(const job::JobFlags& flags, const ParameterView& view) {
  DT_TRY(const optim::InitializerSpec spec, initializer_spec(flags), "reading --initializer");
  optim::initialize(spec, view, flags.seed.value());
  return {};
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
  options.random_crop = augment.random_crop;
  options.random_mirror = augment.random_mirror;
  options.mirror = augment.mirror;
  options.pad_size = static_cast<int>(augment.pad_size);
  options.fill_value = static_cast<int>(augment.fill_value);
  options.threads = plan_threads(flags).decode;
  return options;
}

// --num-batches of each worker, else as many as the data set would fill (formats.md 3.10).
int64_t synthetic_batches(const job::JobFlags& flags) {
  if (flags.augment.num_batches > 0) return flags.augment.num_batches;
  const job::DataSet* set = job::find_data_set(flags.augment.data_type);
  const int64_t examples = flags.augment.num_examples > 0 ? flags.augment.num_examples
                           : set != nullptr               ? set->records_train
                                                          : 0;
  return std::max<int64_t>(1, examples / flags.batch_size / flags.num_workers);
}

}  // namespace

Result<data::DataSets> open_data(const job::Flags& flags, uint32_t rank, const Log& log) {
  if (!flags.job.augment.benchmark) return data::open_dataset(data_options(flags), log);
  // One set for all workers, so that shares work as ever: each finds its own numbers in its part.
  const data::SyntheticOptions options{.image = flags.job.network.image_shape,
                                       .classes = flags.job.network.num_classes,
                                       .batch_size = flags.job.batch_size,
                                       .batches = synthetic_batches(flags.job) * flags.job.num_workers,
                                       .seed = flags.job.seed.value_or(0),
                                       .rank = rank};
  return data::DataSets{
      .train = data::synthetic(options), .validation = nullptr, .type = {}, .classes = flags.job.network.num_classes};
}

Result<EpochPlan> plan_epoch(const job::JobFlags& flags, int64_t records) {
  EpochPlan plan;
  int64_t largest = 0;
  for (int64_t rank = 0; rank < flags.num_workers; rank++) {
    const data::Share share = data::equal_share(records, rank, flags.num_workers);
    if (share.size() == 0) {
      return fail(Code::kUsage, "worker {} of {} would get none of the {} training records: use fewer workers", rank,
                  flags.num_workers, records);
    }
    plan.shares.push_back({share.begin, share.end});
    largest = std::max(largest, share.size());
  }
  // --num-examples stands in for the number of records in the length of an epoch, and nowhere else (formats.md 3.8).
  const int64_t examples = flags.augment.num_examples;
  if (examples > 0) largest = std::max<int64_t>(1, (largest * examples + records - 1) / records);
  plan.batches = data::batches_per_epoch(largest, flags.batch_size);
  return plan;
}

Result<> complete_spec(int64_t records_train, int64_t records_val, job::JobSpec& spec) {
  spec.records_train = records_train;
  spec.records_val = records_val;
  DT_TRY(EpochPlan plan, plan_epoch(spec.flags, records_train));
  spec.shares = std::move(plan.shares);
  spec.batches_per_epoch = plan.batches;
  return {};
}

uint64_t samples_per_epoch(const job::JobSpec& spec) {
  return static_cast<uint64_t>(spec.batches_per_epoch * spec.flags.batch_size * spec.flags.num_workers);
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
  return !flags.device.gpus.empty() && !flags.distributed();
}

ThreadPlan plan_threads(const job::Flags& flags) {
  int64_t threads = flags.launch.threads;
  if (threads == 0) {
    const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
    // Roles of a job that runs on one host share its cores; the scheduler needs next to nothing.
    const int64_t roles = flags.launch.role == job::Role::kNone ? 1 : flags.job.num_workers + flags.job.num_servers;
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
