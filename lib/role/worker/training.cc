#include "role/worker/training.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/host_limits.h"
#include "observe/tensorboard/scalar_sink.h"
#include "role/process/membership.h"
#include "role/setup/class_names.h"
#include "role/setup/memory_need.h"
#include "role/setup/pretrained.h"
#include "role/setup/shares.h"
#include "role/setup/threads.h"
#include "role/worker/loading.h"
#include "role/worker/planned_memory.h"

namespace dtrain::role {

namespace {

// The names of class directories, or those listed in the data directory. Unreadable names do not prevent training.
std::vector<std::string> names_of_classes(const TrainingSetup& setup) {
  const std::string& data_dir = setup.process.flags.data.data_dir;
  if (!setup.data.class_names.empty() || data_dir.empty()) return setup.data.class_names;
  return class_names_in({data_dir}, setup.network.shapes.heads.front().outputs, Log::silent())
      .value_or(std::vector<std::string>());
}

Result<std::unique_ptr<train::CheckpointClaim>> claim_checkpoints(const TrainingSetup& setup,
                                                                  train::CheckpointClaim::Take how) {
  const std::string& run_dir = setup.process.run_dir.path();
  const std::string owner = fmt::format("{} on {}, process {}", run_dir, host_name(), ::getpid());
  DT_TRY(auto claim, train::CheckpointClaim::take(save_prefix(setup.process.flags, run_dir), owner, how, setup.waits));
  claim->revoke_if([&coordinator = setup.coordinator] { return coordinator.has_lost_seat(); });
  return claim;
}

// Taken before the newest checkpoint is looked for, so that none is written after that by an earlier run.
Result<std::unique_ptr<train::CheckpointClaim>> first_claim(const TrainingSetup& setup) {
  if (!setup.keeps_weights || setup.coordinator.rank() != 0 || setup.process.flags.launch.joins) return nullptr;
  using Take = train::CheckpointClaim::Take;
  return claim_checkpoints(setup, setup.process.flags.launch.restart > 0 ? Take::kAlways : Take::kIfFree);
}

}  // namespace

Result<std::unique_ptr<Training>> Training::build(const TrainingSetup& setup, const MakeStore& make_store) {
  DT_TRY_VOID(role::check_memory(setup.process.flags, setup.network, usable_memory().bytes, setup.host.workers));
  DT_TRY(std::unique_ptr<train::CheckpointClaim> claim, first_claim(setup));
  std::vector<size_t> bucket_begin = plan_buckets(setup.process.flags, setup.network);
  DT_TRY(TrainingOptions options, training_options({.flags = setup.process.flags,
                                                    .spec = setup.spec,
                                                    .plan = setup.plan,
                                                    .network = setup.network,
                                                    .data = setup.data,
                                                    .bucket_begin = bucket_begin,
                                                    .run_dir = setup.process.run_dir.path(),
                                                    .resumed = setup.process.resumed,
                                                    .rank = setup.coordinator.rank(),
                                                    .keeps_weights = setup.keeps_weights}));
  std::unique_ptr<Training> training(new Training(setup, std::move(bucket_begin), std::move(options)));
  training->claim_ = std::move(claim);
  DT_TRY_VOID(training->compile());
  DT_TRY_VOID(training->check_memory());
  DT_TRY_VOID(training->make_store(make_store));
  training->open_loaders();
  const TrainingSetup& parts = training->setup_;
  train::TrainSpec spec = training->options_.trainer;
  if (parts.keeps_weights && !spec.start_from && parts.coordinator.rank() == 0 && !spec.joins) {
    DT_TRY(spec.pretrained, pretrained_params(parts.process.flags.loop));
    if (!spec.pretrained.empty())
      spec.pretrained_note = images_note(spec.pretrained, parts.spec.flags.network.image_shape);
    const std::string hint = pixels_hint(parts.process.flags);
    if (!hint.empty()) parts.process.log.warn("{}", hint);
  }
  training->open_class_report();
  Training& own = *training;
  const job::SchemeFlags& scheme = parts.spec.flags.scheme;
  const bool divides = scheme.on_worker_loss != job::OnWorkerLoss::kFail || scheme.snapshot_every > 0;
  const auto divide = [&own](const std::vector<uint32_t>& live) { return own.divide(live); };
  training->trainer_ = std::make_unique<train::Trainer>(
      std::move(spec), train::TrainParts{.graph = parts.network.graph,
                                         .inputs = training->options_.training.inputs,
                                         .training = *training->training_,
                                         .bucket_begin = training->bucket_begin_,
                                         .training_data = *training->training_data_,
                                         .data = parts.data.train.get(),
                                         .inference = training->inference_.get(),
                                         .validation_data = training->validation_data_.get(),
                                         .take_claim = [&own] { return own.take_claim(); },
                                         .divide = divides ? decltype(train::TrainParts::divide)(divide) : nullptr,
                                         .validation_watch = training->class_report_.get(),
                                         .store = *training->store_,
                                         .coordinator = parts.coordinator,
                                         .waits = parts.waits,
                                         .pacer = &training->pacer_,
                                         .fail_points = parts.process.fail_points.get(),
                                         .tracer = parts.process.tracer.get(),
                                         .registry = *parts.process.registry,
                                         .sinks = training->sinks(),
                                         .log = parts.process.log});
  return training;
}

Training::Training(const TrainingSetup& setup, std::vector<size_t> bucket_begin, TrainingOptions options)
    : setup_(setup),
      bucket_begin_(std::move(bucket_begin)),
      options_(std::move(options)),
      pacer_(std::chrono::duration<double, std::milli>(
                 own_faults(setup_.process.flags, setup_.coordinator.rank()).step_ms),
             setup_.waits) {}

// The worker that led before this one may still live and write; the newest claim wins. A worker that leads again needs
// a new one.
Result<train::CheckpointClaim*> Training::take_claim() {
  if ((claim_ == nullptr || has_led_) && setup_.keeps_weights) {
    setup_.process.log.info("this worker writes the checkpoints from now on");
    DT_TRY_VOID(prepare_checkpoints(setup_.process.flags, setup_.process.run_dir.path()));
    DT_TRY(claim_, claim_checkpoints(setup_, train::CheckpointClaim::Take::kAlways));
  }
  has_led_ = true;
  return claim_.get();
}

Result<train::RecordDivision> Training::divide(const std::vector<uint32_t>& live) const {
  DT_TRY(const job::JobSpec spec, spec_of_live(setup_.spec, live));
  const auto rank = static_cast<uint32_t>(std::ranges::find(live, setup_.coordinator.rank()) - live.begin());
  DT_CHECK(rank < live.size(), "worker {} is not among the live ones", setup_.coordinator.rank());
  job::EpochRule epoch = job::plan_of(spec).epoch_of[rank];
  if (spec.flags.scheme.elastic_batch == job::ElasticBatch::kKeep) {
    epoch = epoch.with_update_after(static_cast<uint64_t>(setup_.spec.flags.num_workers) / live.size());
  }
  train::RecordDivision now{
      .epoch = epoch,
      .training = training_loading(setup_.process.flags, spec, *setup_.data.train, options_.training_data.labels, rank),
      .validation = {},
      .job_text = job::text(spec),
      .job_hash = fmt::format("{:016x}", job::hash(spec))};
  if (setup_.data.validation != nullptr) {
    now.validation = validation_loading(now.training, spec, *setup_.data.validation, rank);
  }
  return now;
}

void Training::cancel(const Error& error) {
  store_->cancel(error);
  pacer_.cancel(error);
}

void Training::open_class_report() {
  if (!setup_.keeps_weights || setup_.data.validation == nullptr) return;
  class_report_ =
      std::make_unique<train::ClassReport>(train::ClassReport::Options{.metrics = options_.trainer.metrics,
                                                                       .image = setup_.data.validation->image(),
                                                                       .dataset = *setup_.data.validation,
                                                                       .class_names = names_of_classes(setup_),
                                                                       .rank = setup_.coordinator.rank(),
                                                                       .workers = setup_.coordinator.workers(),
                                                                       .directory = setup_.process.run_dir.path(),
                                                                       .log = setup_.process.log});
}

// The sinks for TensorBoard's curves. The event file is created with the first record, so a start that fails leaves no
// file.
std::vector<std::unique_ptr<telemetry::Sink>> Training::sinks() {
  std::vector<std::unique_ptr<telemetry::Sink>> sinks;
  if (!setup_.keeps_weights) return sinks;
  sinks.push_back(std::make_unique<observe::ScalarSink>(
      observe::EventWriterOptions{.directory = fmt::format("{}/{}/worker-{}", setup_.process.run_dir.path(),
                                                           kTensorBoardDirectory, setup_.coordinator.rank()),
                                  .host = host_name(),
                                  .pid = ::getpid(),
                                  .log = setup_.process.log}));
  return sinks;
}

Result<train::TrainOutcome> Training::run() {
  return trainer_->run();
}

// The files of the choices that GPUs make. A resumed run makes the same choices, so that it computes the same bits.
exec::PlanSettings Training::plan_files() const {
  const auto in = [&](const std::string& directory) {
    return directory + "/" + plan_file_name(setup_.coordinator.rank());
  };
  const std::optional<Resumed>& resumed = setup_.process.resumed;
  return {.run = in(setup_.process.run_dir.path()), .resumed = resumed ? in(resumed->directory) : ""};
}

Result<> Training::compile() {
  const Waits::Wait work(
      setup_.waits, [] { return "the network to be compiled"; }, WaitFor::kOwnWork);
  if (setup_.data.train->image() != setup_.spec.flags.network.image_shape) {
    return fail(Code::kUsage, "the images of the data set have the shape {}, but --image-shape is {}",
                to_string(setup_.data.train->image()), to_string(setup_.spec.flags.network.image_shape));
  }
  DT_TRY(devices_, Devices::open(setup_.process.flags, setup_.process.log, plan_files()));
  gpu_use_ = telemetry::collect_gpu_use(*setup_.process.registry, devices_->gpus());
  DT_TRY(training_, compile_with(options_.training), "compiling '{}'", setup_.spec.flags.network.network);
  if (setup_.data.validation == nullptr) {
    if (!setup_.keeps_weights || setup_.spec.flags.eval_batches_interval == 0) return {};
    return fail(Code::kUsage, "--eval-batches-interval needs validation data: name the data with --data-val");
  }
  DT_TRY(inference_, compile_with(options_.inference), "compiling '{}' for validation",
         setup_.spec.flags.network.network);
  return {};
}

// Checks the memory of processes with CPU devices, now that the sizes of the executors are known. A launcher on this
// host has made the same check, and has already warned.
Result<> Training::check_memory() {
  if (!setup_.process.flags.device.gpus.empty()) return {};
  double activations = 0;
  for (exec::DeviceGroup* group : {training_.get(), inference_.get()}) {
    for (size_t device = 0; group != nullptr && device < group->size(); device++) {
      activations += static_cast<double>(group->executor(device).memory_bytes());
    }
  }
  const MemoryQuestion question{.flags = setup_.process.flags,
                                .network = setup_.network,
                                .validates = inference_ != nullptr,
                                .host = setup_.host};
  DT_TRY(const PlannedMemory plan, planned_memory(question, activations));
  const double bytes = usable_memory().bytes;
  DT_TRY_VOID(judge_memory(question, plan, {.bytes = bytes, .free_bytes = bytes}));
  return {};
}

Result<> Training::make_store(const MakeStore& make_store) {
  const StoreSetup setup{.flags = setup_.process.flags,
                         .spec = setup_.spec,
                         .plan = setup_.plan,
                         .bucket_begin = bucket_begin_,
                         .coordinator = setup_.coordinator,
                         .waits = setup_.waits,
                         .timeline = timeline()};
  DT_TRY(store_, make_store(setup, *devices_, *training_));
  return {};
}

Result<std::unique_ptr<exec::DeviceGroup>> Training::compile_with(exec::Options options) {
  options.timeline = timeline();
  options.waits = &setup_.waits;
  std::vector<int64_t> batches = options_.device_batches;
  std::vector<std::unique_ptr<exec::Executor>> executors;
  for (size_t device = 0; device < batches.size(); device++) {
    options.batch_size = batches[device];
    exec::Executor* weights_of = training_ ? &training_->executor(device) : nullptr;
    DT_TRY(executors.emplace_back(), devices_->backend(device).compile(setup_.network.graph, options, weights_of));
  }
  auto group = std::make_unique<exec::DeviceGroup>(std::move(executors), std::move(batches));
  group->record_on(timeline());
  return group;
}

void Training::open_loaders() {
  const auto open = [this](const std::shared_ptr<const data::Dataset>& dataset, data::LoaderOptions options) {
    options.timeline = timeline();
    options.allocate = devices_->backend(0).batch_memory();
    options.cpus = decode_cpus(devices_->gpus(), plan_threads(setup_.process.flags));
    return std::make_unique<data::Loader>(dataset, std::move(options), setup_.process.log);
  };
  setup_.process.log.info("images go to the devices as {}",
                          options_.training_data.pixels ? "pixels, uint8" : "floats, float32");
  training_data_ = open(setup_.data.train, options_.training_data);
  if (setup_.data.validation != nullptr) validation_data_ = open(setup_.data.validation, options_.validation_data);
}

}  // namespace dtrain::role
