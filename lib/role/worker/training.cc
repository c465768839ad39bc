#include "role/worker/training.h"

#include "base/host_limits.h"
#include "role/setup/data.h"
#include "role/setup/devices.h"
#include "role/setup/labels.h"
#include "role/setup/memory_need.h"
#include "role/setup/network.h"
#include "role/setup/pretrained.h"
#include "role/setup/shares.h"
#include "role/setup/threads.h"
#include "role/setup/update.h"
#include "role/worker/loading.h"

namespace dtrain::role {

namespace {

Result<> check_needs_no_validation(const job::JobFlags& job) {
  const char* flag = job.patience > 0                ? "patience"
                     : job.optimizer.lr_patience > 0 ? "lr-patience"
                     : job.keep_best                 ? "keep-best"
                     : job.eval_batches_interval > 0 ? "eval-batches-interval"
                                                     : nullptr;
  if (flag == nullptr) return {};
  return fail(Code::kUsage, "--{} needs validation data: name them with --data-val", flag);
}

}  // namespace

Result<std::unique_ptr<Training>> Training::build(TrainingSetup setup, const MakeStore& make_store) {
  DT_TRY_VOID(check_memory(setup.process.flags, setup.network, usable_memory().bytes, setup.workers_here));
  std::unique_ptr<Training> training(new Training(std::move(setup)));
  DT_TRY_VOID(training->compile());
  DT_TRY_VOID(training->make_store(make_store));
  DT_TRY(training->labels_, batch_labels(training->setup_.spec.flags.augment, training->setup_.network.shapes));
  training->open_loaders();
  const job::JobFlags& job = training->setup_.spec.flags;
  DT_TRY(const InitializerSpec initializer, initializer_spec(job), "reading --initializer");
  DT_TRY(const train::LossScale loss_scale, train::LossScale::parse(job.loss_scale));
  TrainingSetup& parts = training->setup_;
  train::TrainSpec spec = training->train_spec(initializer, loss_scale);
  if (parts.keeps_weights && !spec.start_from && parts.coordinator.rank() == 0) {
    DT_TRY(spec.pretrained, pretrained_params(parts.process.flags.loop));
    const std::string hint = pixels_hint(parts.process.flags);
    if (!hint.empty()) parts.process.log.warn("{}", hint);
  }
  training->open_tensorboard();
  training->trainer_ = std::make_unique<train::Trainer>(
      std::move(spec),
      train::TrainParts{.graph = parts.network.graph,
                        .inputs = training->inputs_of(*parts.data.train),
                        .training = *training->training_,
                        .bucket_begin = parts.bucket_begin,
                        .training_data = *training->training_data_,
                        .data = parts.data.train.get(),
                        .inference = training->inference_.get(),
                        .validation_data = training->validation_data_.get(),
                        .store = *training->store_,
                        .coordinator = parts.coordinator,
                        .pacer = parts.pacer,
                        .kill = KillSwitch(own_faults(parts.process.flags, parts.coordinator.rank()).kill_at),
                        .tracer = parts.tracer,
                        .views = training->tensorboard_ ? training->tensorboard_->views() : train::Views{},
                        .registry = *parts.process.registry,
                        .sinks = training->sinks(),
                        .log = parts.process.log});
  return training;
}

void Training::open_tensorboard() {
  if (!setup_.keeps_weights || !setup_.process.flags.loop.tensorboard) return;
  tensorboard_ = std::make_unique<TensorBoardRun>(TensorBoardSetup{.process = setup_.process,
                                                                   .spec = setup_.spec,
                                                                   .network = setup_.network,
                                                                   .data = setup_.data,
                                                                   .rank = setup_.coordinator.rank()});
}

std::vector<std::unique_ptr<telemetry::Sink>> Training::sinks() {
  std::vector<std::unique_ptr<telemetry::Sink>> sinks;
  if (tensorboard_) sinks.push_back(tensorboard_->sink());
  return sinks;
}

Result<train::TrainOutcome> Training::run() {
  Result<train::TrainOutcome> outcome = trainer_->run();
  if (tensorboard_) tensorboard_->end(outcome);
  return outcome;
}

Result<> Training::compile() {
  if (setup_.data.train->image() != setup_.spec.flags.network.image_shape) {
    return fail(Code::kUsage, "the data set has images of {}, --image-shape says {}",
                to_string(setup_.data.train->image()), to_string(setup_.spec.flags.network.image_shape));
  }
  DT_TRY(devices_, Devices::open(setup_.process.flags, setup_.process.log));
  gpu_use_ = telemetry::collect_gpu_use(*setup_.process.registry, devices_->gpus());
  DT_TRY(training_, compile_for(exec::Options::Purpose::kTraining, *setup_.data.train), "compiling '{}'",
         setup_.spec.flags.network.network);
  if (setup_.data.validation == nullptr) {
    return setup_.keeps_weights ? check_needs_no_validation(setup_.spec.flags) : Result<>{};
  }
  DT_TRY(inference_, compile_for(exec::Options::Purpose::kInference, *setup_.data.validation),
         "compiling '{}' for validation", setup_.spec.flags.network.network);
  return {};
}

Result<> Training::make_store(const MakeStore& make_store) {
  const StoreSetup setup{.flags = setup_.process.flags,
                         .spec = setup_.spec,
                         .plan = setup_.plan,
                         .bucket_begin = setup_.bucket_begin,
                         .coordinator = setup_.coordinator,
                         .waits = setup_.waits,
                         .timeline = timeline()};
  DT_TRY(store_, make_store(setup, *devices_, *training_));
  return {};
}

Result<std::unique_ptr<exec::DeviceGroup>> Training::compile_for(exec::Options::Purpose purpose,
                                                                 const data::Dataset& data) {
  exec::Options options = executor_options(setup_.process.flags, purpose);
  options.inputs = inputs_of(data);
  options.bucket_begin = setup_.bucket_begin;
  options.timeline = timeline();
  options.keep_all = purpose == exec::Options::Purpose::kTraining && monitors();
  DT_TRY(std::vector<int64_t> batches, device_batches(setup_.process.flags));
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

std::vector<InputForm> Training::inputs_of(const data::Dataset& data) const {
  return {{setup_.spec.flags.network.image_shape, data.normalisation()}};
}

void Training::open_loaders() {
  const job::Flags& flags = setup_.process.flags;
  const job::JobFlags& job = setup_.spec.flags;
  const uint32_t rank = setup_.coordinator.rank();
  data::LoaderOptions options = training_loading(flags, setup_.spec, *setup_.data.train, labels_, rank);
  options.timeline = timeline();
  options.allocate = devices_->backend(0).batch_memory();
  setup_.process.log.info("images go to the devices as {}", options.pixels ? "pixels, uint8" : "numbers, float32");
  training_data_ = std::make_unique<data::Loader>(setup_.data.train, options, setup_.process.log);
  if (setup_.data.validation == nullptr) return;
  options.mode = data::LoaderOptions::Mode::kValidation;
  options.share = data::equal_share(setup_.data.validation->size(), rank, job.num_workers);
  options.share_in = nullptr;
  options.batches = 0;
  options.shuffle = false;
  options.pixels = setup_.data.validation->normalisation() != nullptr;
  validation_data_ = std::make_unique<data::Loader>(setup_.data.validation, options, setup_.process.log);
}

train::TrainSpec Training::train_spec(const InitializerSpec& initializer, const train::LossScale& loss_scale) const {
  const job::Flags& flags = setup_.process.flags;
  const job::JobFlags& job = setup_.spec.flags;
  train::TrainSpec spec;
  spec.num_epochs = job.num_epochs;
  spec.batch_size = job.batch_size;
  spec.epoch = setup_.plan.epoch_of[setup_.coordinator.rank()];
  spec.regroup = {.every = job.scheme.regroup_every, .policy = setup_.plan.policy};
  spec.metrics = metrics_of(job, setup_.network.shapes);
  spec.on_nan = job.optimizer.on_nan;
  spec.loss_scale = loss_scale;
  spec.optimizer = optimizer_spec(job);
  spec.schedule = schedule_spec(job);
  spec.initializer = initializer;
  spec.seed = job.seed.value();
  spec.job_text = job::text(setup_.spec);
  spec.job_hash = fmt::format("{:016x}", job::hash(setup_.spec));
  const std::string& run_dir = setup_.process.run_dir.path();
  const std::optional<Resumed>& resumed = setup_.process.resumed;
  if (setup_.keeps_weights && (flags.loop.load_epoch || resumed)) {
    spec.start_from = train::StartFrom{load_prefix(flags, run_dir, resumed), flags.loop.load_epoch};
  }
  if (setup_.keeps_weights) spec.save_prefix = save_prefix(flags, run_dir);
  spec.save_period = flags.loop.save_period;
  spec.save_every_s = static_cast<double>(flags.loop.save_every.count()) / 1000;
  spec.save_optimizer_states = flags.loop.save_optimizer_states;
  spec.keep = flags.loop.keep;
  spec.keep_best = job.keep_best;
  spec.patience = job.patience;
  spec.plateau = {.patience = job.optimizer.lr_patience,
                  .factor = job.optimizer.lr_patience_factor,
                  .rate_min = job.optimizer.lr_min};
  spec.eval_batches_interval = job.eval_batches_interval;
  const ThreadPlan threads = plan_threads(flags);
  spec.decoders = {.threads = threads.decode, .cores = threads.compute, .are_tuned = flags.data.data_threads_auto};
  if (threads.decode_max > threads.decode || flags.data.data_threads_auto) {
    spec.tune_decoders = {
        .threads = threads.decode, .threads_max = threads.decode_max, .settle_steps = flags.data.prefetch_buffer + 1};
  }
  spec.monitor = monitors() ? flags.loop.monitor : 0;
  spec.disp_batches = flags.loop.disp_batches;
  spec.log_format = flags.loop.log_format;
  spec.metrics_path = run_dir + "/" + kMetricsFile;
  spec.data_can_be_learned = !job.augment.benchmark;
  spec.time_batches_after = job.time_batches_after;
  spec.log_time_to = flags.loop.log_time_to;
  return spec;
}

}  // namespace dtrain::role
