#include "role/worker/alone.h"

#include <fmt/core.h>

#include <atomic>
#include <memory>

#include "base/waits.h"
#include "data/loading/open.h"
#include "exec/check.h"
#include "job/process/build_id.h"
#include "job/process/exit_code.h"
#include "role/process/observer.h"
#include "role/process/process.h"
#include "role/process/report.h"
#include "role/process/signal_watcher.h"
#include "role/process/tracing.h"
#include "role/setup/data.h"
#include "role/setup/devices.h"
#include "role/setup/labels.h"
#include "role/setup/network.h"
#include "role/setup/shares.h"
#include "role/worker/indexing.h"
#include "role/worker/stores.h"
#include "role/worker/test_io.h"
#include "role/worker/training.h"
#include "train/local_coordinator.h"

namespace dtrain::role {
namespace {

// --check reference: compares the first batch with the reference, node by node, and returns.
Result<int> check(const Process& process, const Network& network, const data::DataSets& data) {
  exec::Options options = executor_options(process.flags, exec::Options::Purpose::kTraining);
  options.inputs = {{process.flags.job.network.image_shape, data.train->normalisation()}};
  options.keep_all = true;
  options.parameters_on_device = false;  // on the host, because the gradients are compared too
  DT_TRY(const Devices devices, Devices::open(process.flags, process.log));
  DT_TRY(const std::unique_ptr<exec::Executor> tested, devices.backend(0).compile(network.graph, options));
  DT_TRY_VOID(initialize(process.flags.job, tested->parameters()));
  DT_TRY(auto labels, batch_labels(process.flags.job.augment, network.shapes));
  data::LoaderOptions loading{.share = {0, data.train->size()},
                              .batch_size = options.batch_size,
                              .labels = std::move(labels),
                              .pixels = options.inputs.front().normalisation != nullptr,
                              .seed = *process.flags.job.seed};
  data::Loader loader(data.train, loading, process.log);
  loader.start(0);
  DT_TRY(const data::LoadedBatch* batch, loader.next(), "reading the first batch");
  DT_TRY(const exec::CheckReport report, exec::check_against_reference(network.graph, options, *tested, *batch));
  process.log.info("check against the reference: {}", report.text());
  return report.agrees() ? job::kExitOk : job::kExitInternal;
}

// The log text for a requested stop, which takes effect after the current step. `since`: when the step began, precise
// to a second.
std::string stopping_text(const Signals& signals, Clock::time_point since) {
  constexpr double kLong = 2;
  const std::chrono::duration<double> step = Clock::now() - since;
  return fmt::format("stopping after this step{}{}",
                     step.count() < kLong ? "" : fmt::format(" ({:.0f} s so far)", step.count()),
                     signals.interrupts > 0 ? "; a second Ctrl-C stops at once" : "");
}

Result<int> train_alone(Process& process, const Network& network, const data::DataSets& data, const job::JobSpec& spec,
                        const job::JobPlan& plan) {
  const Clock::time_point started = Clock::now();
  Waits waits;
  begin_own_trace(process);
  job::TimeLeft left;
  SharedProgress progress(job_progress(spec.flags, plan, {}, left));
  std::atomic<Clock::time_point> step_began = started;
  const auto show = [&](const job::Progress& now) {
    step_began = Clock::now();
    progress.set(now);
    process.log.live(job::live_progress(now));
  };
  train::LocalCoordinator coordinator(process.signals.stop, [&](const job::WorkerProgress& report) {
    show(job_progress(spec.flags, plan, {report}, left));
  });
  const SignalWatcher watcher(
      process.signals, waits, process.log, [&] { process.log.info("{}", stopping_text(process.signals, step_began)); },
      [&] { (void)trace_next_steps(process); });
  DT_TRY(const std::unique_ptr<Observer> observer,
         Observer::of_job(
             process,
             [&] { return job_state(progress.get(), started, {own_state(*process.registry, waits, "worker", 0)}); },
             [&] { return trace_next_steps(process); }));
  const auto end = [&](const Result<train::TrainOutcome>& outcome, const observe::Conclusion& conclusion) {
    show(job::at_end(progress.get()));
    Result<int> code = report_end(process, spec, outcome, started, conclusion);
    if (observer != nullptr) observer->end(outcome ? Result<>{} : tl::unexpected(outcome.error()));
    return code;
  };
  if (process.flags.loop.test_io) {
    return end(test_io({process, spec, network, data, coordinator}), {});
  }
  process.log.info("weights are updated {}", update_text(process.flags));
  DT_TRY(const std::unique_ptr<Training> training,
         Training::build({.process = process,
                          .spec = spec,
                          .plan = plan,
                          .network = network,
                          .data = data,
                          .coordinator = coordinator,
                          .waits = waits},
                         [&](const StoreSetup& setup, const Devices& devices, exec::DeviceGroup& executors) {
                           return join_devices(setup, devices, executors);
                         }));
  const Result<train::TrainOutcome> outcome = training->run();
  finish_own_trace(process);
  const std::chrono::duration<double> ran = Clock::now() - started;
  const observe::ProcessState own = own_state(*process.registry, waits, "worker", 0);
  return end(outcome, conclude_run(process.log, observe::period_between({}, {own.source}, ran.count()),
                                   job_form(process, spec.flags)));
}

}  // namespace

Result<int> run_alone(const job::Flags& flags, const Signals& signals, const OnRunDir& on_run_dir) {
  DT_TRY(Process process, Process::open(flags, signals, "worker"));
  if (on_run_dir) on_run_dir(process.run_dir.path());
  DT_TRY_VOID(process.take_rank(0));
  DT_TRY_VOID(complete_flags(process.flags));
  process.flags.job.seed = choose_seed(process);
  process.log.info("start with arguments {}", job::describe(process.flags));
  DT_TRY(const Network network, build_network(process.flags.job));
  DT_TRY_VOID(batch_labels(process.flags.job.augment, network.shapes));
  DT_TRY(const std::vector<data::IndexedFile> files, record_files(process.flags), "opening the data");
  DT_TRY(data::KnownOffsets known, make_indexes(files, process.run_dir.path(), process.log), "opening the data");
  DT_TRY(const data::DataSets data, open_data(process.flags, 0, process.log, std::move(known)), "opening the data");
  if (!process.flags.device.check.empty()) return check(process, network, data);
  job::JobSpec spec = job::requested(process.flags);
  DT_TRY(const std::vector<data::Fraction> sharding, read_sharding(process.flags));
  DT_TRY(const job::JobPlan plan,
         complete_spec(data.train->size(), data.validation == nullptr ? 0 : data.validation->size(), sharding, spec));
  for (const std::string& hint : data_hints(spec, plan)) process.log.warn("{}", hint);
  DT_TRY_VOID(write_complete_spec(process.flags, spec, process.run_dir.path()));
  DT_TRY_VOID(introduce_data(process.flags, data, process.run_dir.path(), process.log), "writing the run directory");
  return train_alone(process, network, data, spec, plan);
}

}  // namespace dtrain::role
