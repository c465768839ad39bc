#include "role/worker/calibration.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <limits>
#include <memory>

#include "base/median.h"
#include "job/process/exit_code.h"
#include "role/process/membership.h"
#include "role/process/process.h"
#include "role/scheduler/scheduler.h"
#include "role/setup/devices.h"
#include "role/setup/network.h"
#include "role/setup/threads.h"
#include "role/worker/joining.h"
#include "role/worker/training.h"
#include "train/log_lines.h"

namespace dtrain::role {
namespace {

// A number of batches so large that no epoch ends while a worker measures and that the step loop writes no Speedometer
// line of its own.
constexpr int64_t kEndless = 1'000'000'000;

// A store that discards the gradients, so that the weights keep their initial values: the speed of a worker does not
// include the cost of a store.
class NoStore final : public kvstore::Store, private kvstore::DeviceDecisions {
 public:
  explicit NoStore(const job::JobFlags& flags) : flags_(flags) {}

  Result<> initialize(std::span<const ParameterView> devices, const kvstore::TrainingState&) override {
    for (const ParameterView& device : devices) DT_TRY_VOID(role::initialize(flags_, device));
    return {};
  }
  Result<uint64_t> next_step() override { return next_.load(); }
  Result<> gradient_ready(kvstore::DeviceBucket, uint64_t step, uint32_t) override {
    next_ = step + 1;
    return {};
  }
  Result<> wait_for_weights(kvstore::DeviceBucket) override { return {}; }
  Result<uint64_t> samples_applied() override { return 0; }
  Result<> share_statistics(uint64_t) override { return {}; }
  Result<> refresh() override { return {}; }
  Result<> set_rate(const kvstore::RateChange&, bool) override { return {}; }
  Result<> read_state(kvstore::TrainingState&) override { return {}; }
  void cancel(Error) override {}  // has no effect, because nothing in this store waits
  [[nodiscard]] kvstore::StoreTimes times() const override { return {}; }
  [[nodiscard]] kvstore::DeviceDecisions* device_decisions() override { return this; }

 private:
  void decide_on_devices() override {}
  void settle_step(uint32_t, bool counts) override {
    if (!counts) next_--;
  }

  const job::JobFlags& flags_;
  std::atomic<uint64_t> next_{0};  // the number of the next step, which the devices' threads write
};

// A coordinator between the step loop and the job. It measures the time of each step and decides when to end. The
// loop's barriers return at once with this worker's own contribution.
class Probe final : public job::Coordinator {
 public:
  Probe(job::Coordinator& job, const CalibrationSetting& setting, const Signals& signals)
      : job_(job), batches_(setting.batches), signals_(signals) {}

  [[nodiscard]] uint32_t rank() const override { return job_.rank(); }
  [[nodiscard]] uint32_t workers() const override { return job_.workers(); }
  Result<std::vector<double>> sum(const std::string&, std::span<const double> values) override {
    return std::vector<double>(values.begin(), values.end());
  }
  void report(const job::WorkerProgress& progress) override { job_.report(progress); }

  Result<bool> may_begin(uint64_t step) override {
    // The launcher stops all workers, so a worker need not first catch up with the fastest one.
    if (signals_.stop.load(std::memory_order_relaxed)) return false;
    DT_TRY(const bool go, job_.may_begin(step));
    if (!go) return false;
    if (step == 0) DT_TRY_VOID(job_.sum("the beginning of the measuring", {}));
    const SteadyTime now = std::chrono::steady_clock::now();
    if (step > 0 && !is_complete()) seconds_.push_back(std::chrono::duration<double>(now - last_).count());
    last_ = now;
    return is_complete() ? others_measure() : true;
  }

  [[nodiscard]] bool is_complete() const { return std::ssize(seconds_) == kWarmUpBatches + batches_; }
  // The duration of each of the steps [begin, end), in seconds.
  [[nodiscard]] std::vector<double> seconds(int64_t begin, int64_t end) const {
    return {seconds_.begin() + begin, seconds_.begin() + end};
  }

 private:
  Result<std::vector<job::Contribution>> gather(const std::string&, job::Contribution own,
                                                std::span<const uint32_t>) override {
    return std::vector<job::Contribution>(workers(), own);
  }

  // Whether other workers are still measuring. The final barrier waits on a separate thread; until it is over, only
  // that thread uses the job's sums.
  Result<bool> others_measure() {
    if (!all_done_.valid()) {
      all_done_ = std::async(std::launch::async, [this]() -> Result<> {
        DT_TRY_VOID(job_.sum("the end of the measuring", {}));
        return {};
      });
    }
    if (all_done_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return true;
    DT_TRY_VOID(all_done_.get());
    return false;
  }

  job::Coordinator& job_;
  const int64_t batches_;
  const Signals& signals_;
  SteadyTime last_;
  std::vector<double> seconds_;  // duration of each step, indexed by step
  // The future's destructor waits for the thread, until all workers have measured or the job fails.
  std::future<Result<>> all_done_;
};

void log_speeds(const Process& process, const Probe& probe, int64_t batches, int64_t batch_size) {
  const auto log = [&](int64_t begin, int64_t end) {
    const double step_s = median(probe.seconds(begin, end));
    process.log.info("{}", train::speed_line({.epoch = 0,
                                              .count = end,
                                              .batches = end - begin,
                                              .samples_per_s = static_cast<double>(batch_size) / step_s,
                                              .values = {}},
                                             process.flags.loop.log_format));
  };
  log(0, kWarmUpBatches);
  log(kWarmUpBatches, kWarmUpBatches + batches);
}

Result<int> measure(Process& process, Connection& connection, const JoinedJob& joined,
                    const CalibrationSetting& setting) {
  job::JobSpec spec = joined.spec;
  std::ranges::fill(spec.batches, kEndless);
  const job::JobPlan plan = job::plan_of(spec);
  // There is no validation data, because no epoch ends.
  const data::DataSets data{.train = joined.data.train, .validation = nullptr, .classes = joined.data.classes};
  DT_TRY(const Network network, build_network(spec.flags));
  Probe probe(*connection.control, setting, process.signals);
  DT_TRY(const std::unique_ptr<Training> training,
         Training::build({.process = process,
                          .spec = spec,
                          .plan = plan,
                          .network = network,
                          .data = data,
                          .coordinator = probe,
                          .waits = connection.waits,
                          .keeps_weights = false,
                          .host = host_share(joined.reply, rpc::Role::kWorker)},
                         [&](const auto&...) -> Result<std::unique_ptr<kvstore::Store>> {
                           return std::make_unique<NoStore>(spec.flags);
                         }));
  const Listening listening(connection.failure, [&](const Error& error) { training->cancel(error); });
  DT_TRY_VOID(training->run(), "measuring the speed of worker {}", joined.reply.rank);
  if (process.signals.stop || !probe.is_complete()) return job::kExitPreempted;
  log_speeds(process, probe, setting.batches, spec.flags.batch_size);
  return job::kExitOk;
}

}  // namespace

job::Flags calibration_flags(job::Flags flags, const CalibrationSetting& setting) {
  flags.launch.threads = plan_threads(flags).compute;
  flags.job.scheme = {.kv_store = "allreduce"};
  flags.job.num_servers = 0;
  flags.job.num_epochs = 1;
  flags.job.augment.num_examples = (kWarmUpBatches + setting.batches) * flags.job.batch_size * flags.job.num_workers;
  flags.job.augment.num_batches = 0;
  const job::LogFormat format = flags.loop.log_format;
  flags.loop = {};
  flags.loop.disp_batches = kEndless;
  flags.loop.log_format = format;
  return flags;
}

Result<int> run_calibration(const job::Flags& flags, const CalibrationSetting& setting, const Signals& signals) {
  if (flags.launch.role == job::Role::kScheduler) {
    // The scheduler does not read the host file: the launcher has already placed the workers, with room for the real
    // job's servers. For this job, which has no servers, the file could give the workers other hosts.
    job::Flags own = flags;
    own.launch.hostfile.clear();
    return run_scheduler(own, signals);
  }
  return run_in_job(flags, signals, [&](Process& process, Connection& connection, const JoinedJob& joined) {
    return measure(process, connection, joined, setting);
  });
}

}  // namespace dtrain::role
