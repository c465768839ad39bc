#include "role/worker/training_options.h"

#include <fmt/format.h>

#include <utility>

#include "data/records/share.h"
#include "job/resolve/data_set.h"
#include "role/process/process.h"
#include "role/process/run_dir.h"
#include "role/setup/devices.h"
#include "role/setup/labels.h"
#include "role/setup/threads.h"
#include "role/setup/update.h"
#include "role/worker/loading.h"

namespace dtrain::role {

namespace {

// The worker whose division of the records is used until this one knows its own: a worker that joins the running job
// gets it at the border, from which on it trains.
uint32_t division_of(const TrainingInput& input) {
  return input.rank < input.spec.shares.size() ? input.rank : 0;
}

// The interval of --monitor, which only worker 0 obeys; 0 on the others.
int64_t monitor_interval(const TrainingInput& input) {
  return input.rank == 0 && input.keeps_weights && !input.flags.launch.joins ? input.flags.loop.monitor : 0;
}

Result<> set_checkpoints(const TrainingInput& input, train::TrainSpec& spec) {
  const job::LoopFlags& loop = input.flags.loop;
  if (input.keeps_weights) {
    spec.save_prefix = save_prefix(input.flags, input.run_dir);
    if (input.rank == 0 && !input.flags.launch.joins) {
      DT_TRY(spec.start_from, start_of(input.flags, input.run_dir, input.resumed));
    }
  }
  spec.job_text = job::text(input.spec);
  spec.job_hash = fmt::format("{:016x}", job::hash(input.spec));
  spec.save_period = loop.save_period;
  spec.save_every_s = static_cast<double>(loop.save_every.count()) / 1000;
  spec.save_optimizer_states = loop.save_optimizer_states;
  spec.keep = loop.keep;
  return {};
}

void set_decoders(const job::Flags& flags, train::TrainSpec& spec) {
  const ThreadPlan threads = plan_threads(flags);
  spec.decoders = {.threads = threads.decode, .cores = threads.compute, .are_tuned = flags.data.data_threads_auto};
  if (!flags.data.data_threads_auto) return;
  spec.tune_decoders = {
      .threads = threads.decode, .threads_max = threads.decode_max, .settle_steps = flags.data.prefetch_buffer + 1};
}

void set_reports(const TrainingInput& input, train::TrainSpec& spec) {
  const job::LoopFlags& loop = input.flags.loop;
  spec.monitor = monitor_interval(input);
  spec.disp_batches = loop.disp_batches;
  spec.log_format = loop.log_format;
  spec.log_time_to = loop.log_time_to;
  spec.metrics_path = input.run_dir + "/" + kMetricsFile;
  spec.time_batches_after = input.spec.flags.time_batches_after;
}

Result<train::TrainSpec> train_spec(const TrainingInput& input) {
  const job::JobFlags& job = input.spec.flags;
  train::TrainSpec spec;
  spec.num_epochs = job.num_epochs;
  spec.batch_size = job.batch_size;
  spec.epoch = input.plan.epoch_of[division_of(input)];
  spec.joins = input.flags.launch.joins;
  const bool waits = job.scheme.on_worker_loss == job::OnWorkerLoss::kWait;
  spec.goes_back = job.scheme.deterministic && waits && input.plan.same_weights;
  spec.snapshot_every = static_cast<uint64_t>(job.scheme.snapshot_every);
  spec.all_go_back = job::all_go_back(job);
  spec.regroup = {.every = job.scheme.regroup_every, .policy = job::policy_of_seats(input.spec)};
  spec.metrics = metrics_of(job, input.network.shapes);
  spec.on_nan = job.optimizer.on_nan;
  DT_TRY(spec.loss_scale,
         train::LossScale::parse(job.loss_scale, job.batch_size / static_cast<int64_t>(device_count(input.flags))));
  spec.optimizer = optimizer_spec(job);
  spec.schedule = schedule_spec(job);
  spec.rate_follows_batch = job.scheme.elastic_batch == job::ElasticBatch::kScale;
  DT_TRY(spec.initializer, initializer_spec(job), "reading --initializer");
  spec.seed = job.seed.value();
  spec.eval_batches_interval = job.eval_batches_interval;
  spec.data_can_be_learned = !job.augment.benchmark;
  spec.usual_rate = job::default_learning_rate(job.network.network, job.network.num_layers);
  DT_TRY_VOID(set_checkpoints(input, spec));
  set_decoders(input.flags, spec);
  set_reports(input, spec);
  return spec;
}

exec::Options options_for(exec::Options::Purpose purpose, const data::Dataset& data, const TrainingInput& input) {
  exec::Options options = executor_options(input.flags, purpose);
  options.inputs = {{input.spec.flags.network.image_shape, data.normalisation()}};
  options.bucket_begin = input.bucket_begin;
  options.keep_all = purpose == exec::Options::Purpose::kTraining && monitor_interval(input) > 0;
  return options;
}

}  // namespace

Result<TrainingOptions> training_options(const TrainingInput& input) {
  using Purpose = exec::Options::Purpose;
  TrainingOptions options;
  DT_TRY(options.trainer, train_spec(input));
  DT_TRY(options.device_batches, device_batches(input.flags));
  options.training = options_for(Purpose::kTraining, *input.data.train, input);
  DT_TRY(std::vector<data::BatchLabel> labels, batch_labels(input.spec.flags.augment, input.network.shapes));
  options.training_data =
      training_loading(input.flags, input.spec, *input.data.train, std::move(labels), division_of(input));
  if (input.data.validation != nullptr) {
    options.inference = options_for(Purpose::kInference, *input.data.validation, input);
    options.validation_data =
        validation_loading(options.training_data, input.spec, *input.data.validation, division_of(input));
  }
  return options;
}

}  // namespace dtrain::role
