#include "flag_products.h"

#include <filesystem>

#include "base/signals.h"
#include "batch_job.h"
#include "cluster/batch_job.h"
#include "data/loading/synthetic.h"
#include "graph/symbol/write.h"
#include "job/resolve/scheme.h"
#include "job/spec/groups.h"
#include "launch/make_job.h"
#include "role/process/addresses.h"
#include "role/process/membership.h"
#include "role/process/observer.h"
#include "role/process/process.h"
#include "role/process/tracing.h"
#include "role/scheduler/scheduler.h"
#include "role/server/server.h"
#include "role/setup/data.h"
#include "role/setup/devices.h"
#include "role/setup/network.h"
#include "role/setup/pretrained.h"
#include "role/setup/shares.h"
#include "role/setup/threads.h"
#include "role/worker/stores.h"
#include "role/worker/training_options.h"
#include "start_job.h"

namespace dtrain::test {

using data::BatchLabel, images::ColorDistortion, data::DataOptions, images::Distortion, data::LoaderOptions,
    images::Range, data::SyntheticOptions;
using kvstore::DeviceStoreOptions, kvstore::DistStoreOptions, kvstore::ShardOptions, kvstore::Slice,
    kvstore::StalenessWeight, kvstore::UpdateRule;
using launch::Command, launch::Limits, launch::OtherHost;
using optim::Multipliers, optim::OptimizerSpec, optim::ScheduleSpec;
using train::Decoders, train::LossScale, train::MetricHead, train::MetricSpec, train::RegroupSpec, train::StartFrom,
    train::TrainSpec;

// clang-format off
DT_DUMPED(net::Endpoint, host, port)
DT_DUMPED(net::Listen, host, port_first, port_last)
DT_DUMPED(data::Share, begin, end)
DT_DUMPED(BatchLabel, name, classes)
DT_DUMPED(Range, min, max)
DT_DUMPED(ColorDistortion, brightness, contrast, saturation, h_max, s_max, l_max, pca_noise)
DT_DUMPED(Distortion, interpolation, resize, rotate_max, rotate, rotate_list, shear_max, scale, aspect, img_size_min, img_size_max, pad, fill_value, random_crop, random_resized_crop, area, crop_size_min, crop_size_max, color, random_mirror, random_contrast, random_illumination)
DT_DUMPED(SyntheticOptions, image, classes, batch_size, batches, seed, rank)
DT_DUMPED(LoaderOptions, mode, share, share_in, batch_size, batches, labels, pixels, allocate, shuffle, shuffle_chunk_bytes, seed, threads, threads_max, cpus, prefetch, max_bad_records, wait_max, timeline)
DT_DUMPED(InputForm, shape, normalisation)
DT_DUMPED(exec::Options, purpose, batch_size, inputs, threads, winograd, bucket_begin, dtype, tf32, parameters_on_device, same_batch, keep_all, timeline, waits)
DT_DUMPED(OptimizerSpec, name, momentum, weight_decay, clip_gradient, parameters, seed)
DT_DUMPED(ScheduleSpec::LargeBatch, scale, warmup_epochs, rise)
DT_DUMPED(ScheduleSpec, base, factor, step_epochs, every_epochs, kind, power, end_epochs, warmup_epochs, warmup_begin, large_batch)
DT_DUMPED(UpdateRule, optimizer, schedule, samples_per_epoch)
DT_DUMPED(StalenessWeight, rule, value)
DT_DUMPED(Multipliers, learning_rate, weight_decay, adapts)
DT_DUMPED(InitializerSpec, kind, gaussian, factor, magnitude)
DT_DUMPED(sync::Policy, group_of, lead_max, snapshots, backup)
DT_DUMPED(RegroupSpec, every, policy)
DT_DUMPED(job::EpochRule, ends_after_fixed_steps, same_weights, samples, samples_per_step, samples_per_update, steps_per_update)
DT_DUMPED(MetricHead, name, label)
DT_DUMPED(MetricSpec, top_k, losses, heads, labels)
DT_DUMPED(StartFrom, prefix, epoch)
DT_DUMPED(Decoders, threads, cores, are_tuned)
DT_DUMPED(train::ThreadTuner::Options, threads, threads_max, settle_steps)
DT_DUMPED(TrainSpec, num_epochs, batch_size, epoch, regroup, metrics, on_nan, loss_scale, optimizer, schedule, rate_follows_batch, initializer, seed, job_hash, job_text, joins, goes_back, snapshot_every, all_go_back, start_from, pretrained, pretrained_note, save_prefix, save_period, save_every_s, save_optimizer_states, keep, eval_batches_interval, decoders, tune_decoders, monitor, disp_batches, log_format, metrics_path, data_can_be_learned, usual_rate, time_batches_after, log_time_to)
DT_DUMPED(role::TrainingOptions, trainer, device_batches, training, inference, training_data, validation_data)
DT_DUMPED(DeviceStoreOptions, update_at, rule, bucket_begin, threads, samples_differ, gradients_are_summed, timeline, make_group, members, joins)
DT_DUMPED(DistStoreOptions, rank, incarnation, placement, bucket_begin, rule, sums_only, update_threads, timeline, log, skips_steps, workers_differ)
DT_DUMPED(kvstore::SnapshotOptions, every, directory, job, life, on_durable, on_failure, log, fault, on_write)
DT_DUMPED(ShardOptions, server, placement, parameters, rule, sums_only, policy, deterministic, weight, on_report, on_update, on_rate, on_corrupt, on_not_finite, on_failure, trace, tracer, threads, snapshots)
DT_DUMPED(job::Store, sum, servers, update, scheme)
DT_DUMPED(job::JobPlan, store, policy, same_weights, stop_set_of, servers_only_sum, samples_per_epoch, epoch_of)
DT_DUMPED(sync::membership::Settings, workers, servers, on_worker_loss, on_server_loss, min_workers, max_workers, stands_still, rejoin_timeout_ms, meets_on_change, job_text, start_timeout_ms, heartbeat_timeout_ms, reconnect_ms, log_missing_first_ms, log_missing_every_ms, barrier_bytes_max, drain_ms, leave_ms, lost_seats_max, lost_seats_ms)
DT_DUMPED(rpc::Tls, certificate, key, authority)
DT_DUMPED(rpc::Security, token, build_id, allow_mixed_builds, tls)
DT_DUMPED(rpc::ControlOptions, scheduler, security, incarnation, seat, start_timeout, heartbeat_interval, heartbeat_timeout, scheduler_grace, tracer, registry, fail_points)
DT_DUMPED(rpc::JoinRequest, role, want_rank, host, address, job_text, records_train, records_val, lacks_index, data_hash, is_late, is_launched, formerly)
DT_DUMPED(job::InjectDelay, min_ms, max_ms)
DT_DUMPED(FailPoint, event, number, later_ms, signal)
DT_DUMPED(job::Faults, drop, dup, delay, step_ms, index_ms, points)
DT_DUMPED(role::ThreadPlan, compute, decode, decode_max, device)
DT_DUMPED(role::ServerAddress, listen, host)
DT_DUMPED(Limits, start, greet, settle, settle_scheduler, wind_down, stop, adds_measured, remind, kill_after)
DT_DUMPED(Command, role, rank, host, arguments, environment, host_number)
// clang-format on

void dump(Products&, const std::string&, const Log&) {}

void dump(Products& to, const std::string& path, const LossScale& scale) {
  to[path] = fmt::format("{}{}", scale.value(), scale.is_dynamic() ? " dynamic" : "");
}

// A table of slices is one product: which of its lines differ tells nothing.
void dump(Products& to, const std::string& path, const std::vector<Slice>& slices) {
  for (const Slice& slice : slices) {
    to[path] += fmt::format("{} {} {} {} {}\n", slice.key, slice.part, slice.begin, slice.count, slice.server);
  }
}

void dump(Products& to, const std::string& path, const std::vector<Multipliers>& parameters) {
  for (const Multipliers& one : parameters) {
    to[path] += fmt::format("{} {} {}\n", one.learning_rate, one.weight_decay, one.adapts);
  }
}

void dump(Products& to, const std::string& path, const DataOptions& options) {
#define DT_MEMBER(member) dump(to, path + "." #member, options.member)
  DT_MEMBER(data_dir), DT_MEMBER(data_type), DT_MEMBER(type_given), DT_MEMBER(data_train), DT_MEMBER(data_val),
      DT_MEMBER(data_train_idx), DT_MEMBER(data_val_idx), DT_MEMBER(image_shape), DT_MEMBER(label_width),
      DT_MEMBER(label_list), DT_MEMBER(rgb_mean), DT_MEMBER(rgb_std), DT_MEMBER(mean_img), DT_MEMBER(scale),
      DT_MEMBER(mirror), DT_MEMBER(training), DT_MEMBER(val_resize), DT_MEMBER(threads);
#undef DT_MEMBER
}

template <class T>
void dump(Products& to, const std::string& path, const Result<T>& value) {
  if (value)
    dump(to, path, *value);
  else
    to[path + ".error"] = value.error().message;
}

namespace {

constexpr int64_t kRecordsTrain = 1000, kRecordsVal = 200;

// The description of the job as the scheduler completes it, and what follows from it.
struct WholeJob {
  job::JobSpec spec;
  job::JobPlan plan;
};

Result<WholeJob> whole_job(const job::Flags& flags) {
  WholeJob job{.spec = job::requested(flags), .plan = {}};
  DT_TRY(const std::optional<job::GroupsFile> groups, role::read_groups(flags));
  const std::vector<job::WorkerPlace> places(static_cast<size_t>(flags.job.num_workers), {"node1", "10.0.0.1"});
  if (groups) {
    DT_TRY(job.spec.groups, job::parse_groups(*groups, places, flags.job.scheme.ungrouped));
    DT_TRY_VOID(job::check_groups(flags.job, job.spec.groups));
  }
  DT_TRY(const std::vector<data::Fraction> sharding, role::read_sharding(flags));
  DT_TRY(job.plan, role::complete_spec(kRecordsTrain, kRecordsVal, sharding, job.spec));
  DT_TRY(job.spec.placement, role::placement_of(job.spec.flags));
  return job;
}

// Images that were pixels, as those of files are.
class PixelData final : public data::Dataset {
 public:
  explicit PixelData(std::shared_ptr<const data::Dataset> images) : images_(std::move(images)) {}
  [[nodiscard]] int64_t size() const override { return images_->size(); }
  [[nodiscard]] const Shape& image() const override { return images_->image(); }
  [[nodiscard]] size_t label_width() const override { return images_->label_width(); }
  Result<> load(int64_t index, RandomStream& random, std::span<float> out, std::span<float> labels) const override {
    return images_->load(index, random, out, labels);
  }
  [[nodiscard]] std::shared_ptr<const Normalisation> normalisation() const override {
    const std::vector<float> values(static_cast<size_t>(image().front()), 1);
    return std::make_shared<const Normalisation>(image(), values, values, nullptr);
  }

 private:
  const std::shared_ptr<const data::Dataset> images_;
};

// Labeled images of the shape that the flags name.
std::shared_ptr<const data::Dataset> some_data(const job::JobFlags& flags, int64_t records) {
  std::shared_ptr<const data::Dataset> images = data::synthetic(
      {.image = flags.network.image_shape,
       .classes = std::vector(static_cast<size_t>(flags.augment.label_width), flags.network.num_classes),
       .batch_size = 1,
       .batches = records});
  if (flags.augment.benchmark) return images;
  return std::make_shared<const PixelData>(std::move(images));
}

// What a worker trains with.
Result<> add_training(const job::Flags& flags, const WholeJob& job, const std::string& run_dir, Products& to) {
  DT_TRY(const role::Network network, role::build_network(flags.job));
  to["network.symbol"] = graph::symbol_text(network.graph);
  const data::DataSets data{.train = some_data(flags.job, kRecordsTrain),
                            .validation = some_data(flags.job, kRecordsVal)};
  const std::vector<size_t> buckets = role::plan_buckets(flags, network);
  const std::optional<role::Resumed> resumed;
  DT_TRY(role::TrainingOptions options, role::training_options({.flags = flags,
                                                                .spec = job.spec,
                                                                .plan = job.plan,
                                                                .network = network,
                                                                .data = data,
                                                                .bucket_begin = buckets,
                                                                .run_dir = run_dir,
                                                                .resumed = resumed}));
  DT_CHECK(options.trainer.job_text == job::text(job.spec), "checkpoints get another description of the job");
  DT_CHECK(options.trainer.job_hash == fmt::format("{:016x}", job::hash(job.spec)), "checkpoints get another hash");
  options.trainer.job_text = options.trainer.job_hash = "";
  dump(to, "worker", options);
  if (const auto& share_in = options.training_data.share_in) dump(to, "worker.training_data.share_in(1)", share_in(1));
  DT_TRY(options.trainer.pretrained, role::pretrained_params(flags.loop));
  dump(to, "worker.trainer.pretrained", options.trainer.pretrained);
  dump(to, "store", role::store_options(flags, job.spec, job.plan));
  if (flags.job.num_servers == 0) return {};
  dump(to, "servers_store", role::dist_store_options(flags, job.spec, job.plan));
  dump(to, "shard", role::shard_options(flags, job.spec, network, 0));
  return {};
}

void add_data(const job::Flags& flags, Products& to) {
  dump(to, "data", role::data_options(flags));
  if (!flags.job.augment.benchmark) return;
  const data::SyntheticOptions options = role::synthetic_options(flags.job, 1);
  dump(to, "synthetic_data", options);
  DT_CHECK(options.rank == 1, "all workers have the same images");
  const Result<data::DataSets> opened = role::open_data(flags, 1, Log::silent());
  DT_CHECK(opened && opened->train != nullptr, "--benchmark has no images");
  dump(to, "opened.records", opened->train->size());
  dump(to, "opened.classes", opened->classes);
}

// Where the processes meet.
void add_addresses(const job::Flags& flags, const job::JobSpec& spec, Products& to) {
  const Result<rpc::Security> security = role::security_of(flags.launch);
  dump(to, "security", security);
  if (!security) return;
  const Result<net::Listen> listen = role::scheduler_listen(flags.launch, security->token);
  dump(to, "scheduler.listen", listen);
  if (listen) to["scheduler.host"] = role::scheduler_host(flags.launch, *listen);
  sync::membership::Settings settings = role::membership_settings(flags, spec);
  settings.job_text.clear();
  dump(to, "scheduler.membership", settings);
  if (flags.launch.scheduler.empty()) return;
  dump(to, "server.address", role::server_address(flags.launch, security->token));
  dump(to, "control", role::control_options(flags, *security, 1));
}

// What a process tells about itself, and how it is watched.
Result<> add_process(const job::Flags& flags, Products& to) {
  rpc::JoinRequest request = role::join_request(flags, rpc::Role::kWorker);
  request.job_text.clear();
  dump(to, "join", request);
  for (const job::Role role : {job::Role::kWorker, job::Role::kServer}) {
    dump(to, role == job::Role::kWorker ? "faults_of_worker_1" : "faults_of_server_1", flags.wire.inject.of({role, 1}));
  }
  dump(to, "process.faults", role::own_faults(flags, 1));
  dump(to, "threads", role::plan_threads(flags));
  dump(to, "devices", role::device_names(flags.device));
  const Signals signals;
  DT_TRY(role::Process process, role::Process::open(flags, signals, "worker"));
  DT_TRY_VOID(process.take_rank(0));
  to["process.verbosity"] = fmt::format("{}", process.log.verbosity());
  to["process.run_dir"] = process.run_dir.path();
  std::string files;
  for (const auto& file : std::filesystem::recursive_directory_iterator(process.run_dir.path())) {
    files += file.path().filename().string() + "\n";
  }
  to["process.files"] = files;
  to["process.traces"] = fmt::format("{}", role::steps_to_trace(flags));
  const auto own = role::Observer::of_process(process, [] { return observe::JobState{}; });
  to["process.is_observed"] = own ? fmt::format("{}", *own != nullptr) : own.error().message;
  const auto whole = role::Observer::of_job(
      process, [] { return observe::JobState{}; }, [] { return std::string(); });
  to["job.is_observed"] = whole ? fmt::format("{}", *whole != nullptr) : whole.error().message;
  return {};
}

// The commands and files that start the processes. The user's arguments, which they repeat, are left out.
void add_launch(const job::Flags& flags, const job::Environment& environment, Products& to) {
  const cmd::Call call{{}, environment, nullptr};
  const cluster::UserCommand command = *cmd::command_of(call, flags);
  for (const std::string_view system : job::kBatchSystems) {
    dump(to, fmt::format("file.{}", system), cluster::batch_file(system, command));
  }
  if (flags.launch.launcher == "print" || flags.launch.launcher == "kubernetes") return;  // these start nothing here
  std::vector<std::string> missing;
  Result<cmd::Places> places = cmd::places_of(call, flags, &missing);
  dump(to, "missing_hosts", missing);
  if (!places) {
    to["launcher.error"] = places.error().message;
    return;
  }
  const Result<cmd::JobToStart> job =
      cmd::job_to_start(call, {.arguments = {}, .flags = flags, .places = *std::move(places), .run_dir = "run"});
  if (!job) {
    to["launcher.error"] = job.error().message;
    return;
  }
  const launch::Job& processes = job->processes;
  dump(to, "launcher.limits", processes.limits);
  dump(to, "launcher.is_for_people", processes.is_for_people);
  dump(to, "launcher.may_lose_workers", processes.may_lose_workers);
  dump(to, "launcher.may_lose_servers", processes.may_lose_servers);
  dump(to, "launcher.replacements", processes.replacement ? processes.replacements_max : -1);
  if (processes.returning_scheduler) {
    dump(to, "launcher.returning_scheduler", processes.returning_scheduler("HOST:1", 1));
  }
  dump(to, "launcher.allow_mixed_builds", processes.allow_mixed_builds);
  dump(to, "launcher.scheduler_address", processes.scheduler_address);
  dump(to, "launcher.scheduler", processes.scheduler);
  dump(to, "launcher.others", processes.others("HOST:1"));
  to["launcher.dry_run"] = launch::dry_run_text(processes);
}

}  // namespace

Result<Products> products_of(const std::vector<std::string>& arguments, const job::Environment& environment) {
  DT_TRY(job::Parsed parsed, job::parse_flags(arguments, environment));
  job::Flags& flags = parsed.flags;
  std::filesystem::remove_all(flags.launch.run_dir);
  Products products;
  DT_TRY_VOID(role::apply_pretrained(flags));
  DT_TRY_VOID(role::complete_flags(flags));
  DT_TRY(const WholeJob job, whole_job(flags));
  dump(products, "plan", job.plan);
  add_data(flags, products);
  DT_TRY_VOID(add_training(flags, job, flags.launch.run_dir, products));
  add_addresses(flags, job.spec, products);
  DT_TRY_VOID(add_process(flags, products));
  add_launch(flags, environment, products);
  return products;
}

}  // namespace dtrain::test
