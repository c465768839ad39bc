// The trainer launches a step before it looks at the results of the one before, if the parameters are on the devices.
// Here the devices are executors for the CPU that pretend it.

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <utility>

#include "support/catch.h"
#include "support/patience.h"
#include "toy_run.h"
#include "train/checkpoint.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;

namespace {

// What the executors of a run saw.
struct LaunchLog {
  std::vector<int> alone;  // the steps that were launched when no other step was in flight, counted from 0
  int launched = 0, in_flight = 0;
  bool looked_early = false;  // whether weights or validation were asked for while a step was in flight
  std::function<void(int step)> at_launch = nullptr;  // called before a step is launched
};

// Host memory that pretends to be a device's.
class PretendedArrays final : public DeviceArrays {
 public:
  explicit PretendedArrays(LaunchLog& log) : log_(log) {}
  Result<> read(std::span<const float> there, std::span<float> here) override { return copy(there, here); }
  Result<> write(std::span<const float> here, std::span<float> there) override { return copy(here, there); }

 private:
  Result<> copy(std::span<const float> from, std::span<float> to) {
    if (log_.in_flight > 0) log_.looked_early = true;
    if (from.data() != to.data()) std::ranges::copy(from, to.begin());
    return {};
  }

  LaunchLog& log_;
};

// Computes a step when it is launched, but returns its results only when it is finished.
class LaunchingExecutor final : public exec::Executor {
 public:
  LaunchingExecutor(std::unique_ptr<exec::Executor> real, bool trains, LaunchLog& log)
      : real_(std::move(real)), trains_(trains), log_(log), view_(real_->device_parameters()) {
    view_.device = &arrays_;
  }
  Result<> forward(const exec::Batch& batch, const exec::WeightsWait& wait) override {
    if (!trains_ && log_.in_flight > 0) log_.looked_early = true;
    return real_->forward(batch, wait);
  }
  Result<> backward(const exec::GradientReady& ready) override {
    if (log_.at_launch) log_.at_launch(log_.launched);
    if (log_.in_flight == 0) log_.alone.push_back(log_.launched);
    log_.launched++;
    log_.in_flight++;
    const std::span<const float> result = real_->result(0);
    results_.emplace_back(result.begin(), result.end());
    return real_->backward(ready);
  }
  Result<> finish() override {
    log_.in_flight--;
    shown_ = std::move(results_.front());
    results_.pop_front();
    return {};
  }
  const ParameterView& parameters() override { return real_->parameters(); }
  const ParameterView& device_parameters() override { return view_; }
  [[nodiscard]] size_t heads() const override { return 1; }
  std::span<const float> result(size_t head) override { return trains_ ? shown_ : real_->result(head); }
  std::vector<float> node_output(graph::NodeId node) override { return real_->node_output(node); }
  std::vector<float> node_gradient(graph::NodeId node) override { return real_->node_gradient(node); }
  [[nodiscard]] size_t memory_bytes() const override { return real_->memory_bytes(); }
  [[nodiscard]] exec::Executor* real() { return real_.get(); }

 private:
  std::unique_ptr<exec::Executor> real_;
  bool trains_;
  LaunchLog& log_;
  PretendedArrays arrays_{log_};
  ParameterView view_;
  std::deque<std::vector<float>> results_;
  std::vector<float> shown_;
};

class LaunchingBackend final : public exec::Backend {
 public:
  explicit LaunchingBackend(LaunchLog& log) : log_(log) {}
  Result<std::unique_ptr<exec::Executor>> compile(const graph::Graph& graph, const exec::Options& options,
                                                  exec::Executor* weights_of) override {
    auto* owner = dynamic_cast<LaunchingExecutor*>(weights_of);
    DT_TRY(auto real, real_->compile(graph, options, owner == nullptr ? nullptr : owner->real()));
    return std::make_unique<LaunchingExecutor>(std::move(real), options.purpose == exec::Options::Purpose::kTraining,
                                               log_);
  }

 private:
  std::unique_ptr<exec::Backend> real_ = exec::make_reference_backend();
  LaunchLog& log_;
};

// Counts how often it has told the trainer to stop.
class CountingCoordinator final : public StoppingCoordinator {
 public:
  using StoppingCoordinator::StoppingCoordinator;
  Result<bool> may_begin(uint64_t step) override {
    Result<bool> go = StoppingCoordinator::may_begin(step);
    if (go && !*go) refusals++;
    return go;
  }
  int refusals = 0;
};

constexpr int kSteps = 8;  // of an epoch

// A run of two epochs, with or without devices that hold the parameters.
struct LaunchedRun {
  LaunchLog log;
  TempDir directory;
  std::vector<std::string> lines;
  std::string error, files;
  int refusals = 0;  // of the coordinator

  LaunchedRun(bool on_devices, const std::function<void(TrainSpec&, ToyOptions&)>& change, uint64_t stop_at = 1000,
              telemetry::Tracer* tracer = nullptr) {
    TrainSpec spec = toy_spec(directory.path("net"), 2);
    spec.disp_batches = 100;  // no line with a speed
    ToyOptions options;
    options.bucket_begin = {0};
    options.tracer = tracer;
    if (change) change(spec, options);
    if (on_devices) {
      options.make_backend = [this] { return std::make_unique<LaunchingBackend>(log); };
      options.make_store = [](exec::DeviceGroup&, const kvstore::DeviceStoreOptions& store, Waits& waits) {
        return must(kvstore::DeviceStore::create(store, {}, nullptr, waits));
      };
    }
    const std::atomic<bool> never = false;
    CountingCoordinator coordinator(never, stop_at);
    ToyRun run(spec, options, &coordinator);
    // A step can be launched ahead only if the loader has its batch. It counts the batches that the trainer has not
    // taken yet, and so the batch of a step that is being launched ahead.
    log.at_launch = [&](int step) {
      const int batches = step % kSteps == kSteps - 1 ? 0 : 1 + log.in_flight;
      dtrain::test::await([&] { return run.metric(telemetry::Metric::kReadyBatches).value_or(0) >= batches; });
    };
    const auto outcome = run.run();
    if (!outcome) error = outcome.error().text();
    refusals = coordinator.refusals;
    keep(run);
  }

 private:
  void keep(const ToyRun& run) {
    for (const std::string& line : run.lines()) {
      if (line.find("Time cost") == std::string::npos && line.find("waiting for batches") == std::string::npos &&
          line.find("  rate ") == std::string::npos && line.find(directory.path()) == std::string::npos) {
        lines.push_back(line);
      }
    }
    for (const int64_t epoch : {1, 2}) {
      const CheckpointName name{directory.path("net"), epoch};
      files += read_file(name.params_path()).value_or("none") + read_file(name.states_path()).value_or("none");
    }
  }
};

void check_launches(const std::vector<int>& alone, const std::function<void(TrainSpec&, ToyOptions&)>& change = nullptr,
                    uint64_t stop_at = 1000) {
  const LaunchedRun expected(false, change, stop_at), run(true, change, stop_at);
  CHECK(run.log.alone == alone);
  CHECK(run.log.in_flight == 0);
  CHECK_FALSE(run.log.looked_early);
  CHECK(run.error.empty());
  CHECK(run.refusals == expected.refusals);
  CHECK(run.lines == expected.lines);
  CHECK(run.files == expected.files);
}

}  // namespace

// Step 8 begins the second epoch, after a validation and a checkpoint.
TEST_CASE("on devices a step is launched before the results of the last one are read", "[train]") {
  check_launches({0, 8});
}

TEST_CASE("no step is launched ahead of a validation within the epoch", "[train]") {
  check_launches({0, 3, 6, 8, 11, 14}, [](TrainSpec& spec, ToyOptions&) { spec.eval_batches_interval = 3; });
}

TEST_CASE("no step is launched ahead of the monitor", "[train]") {
  check_launches({0, 1, 6, 8, 11}, [](TrainSpec& spec, ToyOptions& options) {
    spec.monitor = 5;  // the steps 0, 5, 10 and 15
    options.keep_all = true;
  });
}

TEST_CASE("no step is launched ahead of a checkpoint within the epoch", "[train]") {
  std::vector<int> all(2 * kSteps);
  std::iota(all.begin(), all.end(), 0);
  check_launches(all, [](TrainSpec& spec, ToyOptions&) { spec.save_every_s = 1e-9; });
}

TEST_CASE("no step is launched ahead of a stop", "[train]") {
  check_launches({0}, nullptr, 5);
}

// The first five steps are not traced, the sixth is, and the trace ends in the forward pass of the seventh.
TEST_CASE("no step is launched ahead while a trace is wanted", "[train]") {
  telemetry::Tracer tracer(Log::silent());
  tracer.request_at_start(1);
  const LaunchedRun run(true, nullptr, 1000, &tracer);
  CHECK(run.error.empty());
  CHECK(tracer.written() == 1);
  CHECK(run.log.alone == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 8});
}

// Record 11 is in one of the first steps of a pass, so that another step is in flight when it is found.
TEST_CASE("a loss that is not finite is that of its step, although the next one was launched", "[train]") {
  const auto spoil = [](TrainSpec&, ToyOptions& options) {
    options.network = linear_network();
    options.change = [](int64_t index, std::span<float> image) {
      if (index == 11) image[7] = std::numeric_limits<float>::infinity();
    };
  };
  const LaunchedRun expected(false, spoil), run(true, spoil);
  const std::string found = expected.error.substr(0, expected.error.find(", first in layer"));
  CHECK_THAT(found, Catch::Contains("loss is not finite"));
  CHECK_THAT(run.error, Catch::StartsWith(found));
  CHECK(run.log.in_flight == 1);
}
