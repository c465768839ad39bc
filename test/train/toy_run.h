// A whole training run that is small enough for plain loops: noisy images of four classes, a network with every kind of
// layer that has state, and the store of a single process. Shared by the tests of the trainer.
#pragma once

#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "data/loading/loader.h"
#include "exec/device_group.h"
#include "graph/graph.h"
#include "kvstore/worker/device_store.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "train/local_coordinator.h"
#include "train/trainer.h"

namespace dtrain::train::test {

using dtrain::test::must;
using dtrain::test::TempDir;

inline constexpr int64_t kToyClasses = 4;
inline constexpr int64_t kToyRecords = 37;
inline constexpr int64_t kToyBatch = 5;  // 8 batches an epoch, so 3 records come twice

// Images of class k have a bright quarter k. `change` may modify an image: (index, values).
class ToyDataset final : public data::Dataset {
 public:
  using Change = std::function<void(int64_t, std::span<float>)>;
  explicit ToyDataset(Change change = nullptr) : change_(std::move(change)) {}
  [[nodiscard]] int64_t size() const override { return kToyRecords; }
  [[nodiscard]] const Shape& image() const override { return image_; }
  Result<> load(int64_t index, RandomStream& random, std::span<float> out, std::span<float> labels) const override {
    const int64_t label = index % kToyClasses;
    for (int64_t y = 0; y < 6; y++) {
      for (int64_t x = 0; x < 6; x++) {
        const bool bright = y / 3 * 2 + x / 3 == label;
        out[static_cast<size_t>(y * 6 + x)] = static_cast<float>(random.uniform(-1, 1) + (bright ? 1 : 0));
      }
    }
    if (change_) change_(index, out);
    labels[0] = static_cast<float>(label);
    return {};
  }

 private:
  Shape image_ = {1, 6, 6};
  Change change_;
};

inline graph::Graph toy_network() {
  using namespace graph;
  Graph g;
  NodeId x = g.add("data", Input{}, {});
  x = g.add("conv1", Convolution{.filters = 4, .kernel_h = 3, .kernel_w = 3}, {x});
  x = g.add("bn1", BatchNorm{.fix_gamma = true}, {x});
  x = g.add("relu1", Activation{}, {x});
  x = g.add("bn2", BatchNorm{.fix_gamma = false}, {x});
  x = g.add("flatten", Flatten{}, {x});
  x = g.add("fc1", FullyConnected{.outputs = kToyClasses}, {x});
  g.add("softmax", SoftmaxOutput{}, {x});
  return g;
}

// Softmax regression. A value that is not finite in an image reaches the loss, while a ReLU would hide it.
inline graph::Graph linear_network(double gradient_scale = 1) {
  using namespace graph;
  Graph g;
  const NodeId data = g.add("data", Input{}, {});
  const NodeId flat = g.add("flatten", Flatten{}, {data});
  const NodeId fc = g.add("fc1", FullyConnected{.outputs = kToyClasses}, {flat});
  g.add("softmax", SoftmaxOutput{.gradient_scale = gradient_scale}, {fc});
  return g;
}

// Asks to stop before step `stop_at`, or to leave the job, or fails there as if the process had been killed.
class StoppingCoordinator : public LocalCoordinator {
 public:
  enum class How { kStop, kLeave, kFail };
  StoppingCoordinator(const std::atomic<bool>& never, uint64_t stop_at, How how = How::kStop)
      : LocalCoordinator(never), stop_at_(stop_at), how_(how) {}
  Result<bool> may_begin(uint64_t step) override {
    DT_TRY(const bool go, LocalCoordinator::may_begin(step));
    if (step < stop_at_ || !go) return go;
    if (how_ == How::kFail) return fail(Code::kPeerLost, "killed");
    has_ended_ = true;
    return false;
  }
  [[nodiscard]] bool leaves() const override { return how_ == How::kLeave && has_ended_; }
  void report(const job::WorkerProgress& progress) override { reported_ = progress; }
  [[nodiscard]] const std::optional<job::WorkerProgress>& reported() const { return reported_; }  // last

 private:
  std::optional<job::WorkerProgress> reported_;
  uint64_t stop_at_;
  How how_;
  bool has_ended_ = false;
};

struct ToyOptions {
  ToyDataset::Change change = nullptr;  // of the training data
  ToyDataset::Change change_validation = nullptr;
  graph::Graph network = toy_network();
  bool on_cpu_backend = false;  // instead of the reference backend
  // If set, used instead of both backends: devices with a store of their own, which may work in device memory.
  std::function<std::unique_ptr<exec::Backend>()> make_backend = nullptr;
  std::function<std::unique_ptr<kvstore::Store>(exec::DeviceGroup&, const kvstore::DeviceStoreOptions&, Waits&)>
      make_store = nullptr;
  size_t devices = 1;
  bool parameters_on_device = false;
  Type dtype = Type::kFloat32;
  int64_t rank = 0, workers = 1;
  std::function<data::Share(int64_t epoch)> share_in = nullptr;  // instead of the equal share
  std::vector<size_t> bucket_begin = {0, 2, 4};                  // conv1 | bn1 | bn2 and fc1
  std::optional<EpochRule> epoch = {};                           // instead of the rule for BSP
  bool validates = true;
  bool keep_all = false;  // in the training executor
  AtomicFile::Fault checkpoint_fault = nullptr;
  telemetry::Tracer* tracer = nullptr;
  ValidationWatch* validation_watch = nullptr;
};

// Whether a position has these steps and epochs, whatever the counters are.
inline bool is_at(const Position& position, int64_t epoch, int64_t step) {
  return position.epoch == epoch && position.step == step;
}

// Where a toy run of one process stands after `epoch` epochs of 8 steps, and `step` steps.
inline Position toy_position(int64_t epoch, int64_t step = 0) {
  const auto steps = static_cast<uint64_t>(8 * epoch + step);
  return {epoch, step, steps, steps, steps * kToyBatch};
}

inline TrainSpec toy_spec(const std::string& save_prefix, int64_t epochs) {
  TrainSpec spec;
  spec.num_epochs = epochs;
  spec.batch_size = kToyBatch;
  spec.optimizer = {.momentum = 0.9, .weight_decay = 1e-3};
  spec.schedule = {.base = 0.05, .factor = 0.5, .every_epochs = 1};
  spec.seed = 3;
  spec.job_hash = "1234";
  spec.save_prefix = save_prefix;
  spec.disp_batches = 4;
  return spec;
}

// A Trainer and the objects that it needs.
class ToyRun {
 public:
  // store: used instead of a single process's store.
  explicit ToyRun(TrainSpec spec, ToyOptions options = {}, job::Coordinator* coordinator = nullptr,
                  std::unique_ptr<kvstore::Store> store = nullptr)
      : spec_(std::move(spec)), options_(std::move(options)), log_(must_log()), alone_(stop_) {
    backend_ = options_.make_backend     ? options_.make_backend()
               : options_.on_cpu_backend ? exec::make_cpu_backend()
                                         : exec::make_reference_backend();
    training_ = compile(exec::Options::Purpose::kTraining);
    inference_ = compile(exec::Options::Purpose::kInference);
    const data::Share share = data::equal_share(kToyRecords, options_.rank, options_.workers);
    const int64_t batches = data::batches_per_epoch((kToyRecords + options_.workers - 1) / options_.workers, kToyBatch);
    const auto load = [&](data::LoaderOptions::Mode mode) {
      const bool trains = mode == data::LoaderOptions::Mode::kTraining;
      return std::make_unique<data::Loader>(
          std::make_shared<ToyDataset>(trains ? options_.change : options_.change_validation),
          data::LoaderOptions{.mode = mode,
                              .share = trains && options_.share_in ? options_.share_in(0) : share,
                              .share_in = trains ? options_.share_in : nullptr,
                              .batch_size = kToyBatch,
                              .batches = trains ? batches : 0,
                              .labels = {{.name = {}, .classes = kToyClasses}},
                              .seed = spec_.seed},
          log_);
    };
    const auto samples_per_step = static_cast<uint64_t>(kToyBatch * options_.workers);
    spec_.epoch = options_.epoch.value_or(EpochRule{.samples = static_cast<uint64_t>(batches) * samples_per_step,
                                                    .samples_per_step = samples_per_step,
                                                    .samples_per_update = samples_per_step});
    training_data_ = load(data::LoaderOptions::Mode::kTraining);
    validation_data_ = load(data::LoaderOptions::Mode::kValidation);
    store_ = store != nullptr ? std::move(store) : own_store();
    trainer_ = std::make_unique<Trainer>(spec_, TrainParts{.graph = options_.network,
                                                           .inputs = {{.shape = {1, 6, 6}}},
                                                           .training = *training_,
                                                           .bucket_begin = options_.bucket_begin,
                                                           .training_data = *training_data_,
                                                           .inference = options_.validates ? inference_.get() : nullptr,
                                                           .validation_data = validation_data_.get(),
                                                           .validation_watch = options_.validation_watch,
                                                           .store = *store_,
                                                           .coordinator = coordinator ? *coordinator : alone_,
                                                           .waits = waits_,
                                                           .tracer = options_.tracer,
                                                           .registry = registry_,
                                                           .log = log_,
                                                           .checkpoint_fault = options_.checkpoint_fault});
  }

  Result<TrainOutcome> run() { return trainer_->run(); }
  // The metrics of the run. Call after run().
  [[nodiscard]] telemetry::Snapshot metrics() { return registry_.snapshot(); }
  [[nodiscard]] const Waits& waits() const { return waits_; }
  [[nodiscard]] telemetry::Registry& registry() { return registry_; }
  [[nodiscard]] std::optional<double> metric(telemetry::Metric metric) { return value_of(metrics(), metric); }
  [[nodiscard]] uint64_t samples() { return static_cast<uint64_t>(metric(telemetry::Metric::kRunSamples).value_or(0)); }
  [[nodiscard]] exec::Executor& training() { return training_->executor(0); }
  std::atomic<bool>& stop_flag() { return stop_; }

  // The log lines, without times and node.
  [[nodiscard]] std::vector<std::string> lines() const {
    log_.flush();
    std::istringstream text(must(read_file(dir_.path("log"))));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line.substr(line.find("] ") + 2));
    return lines;
  }
  [[nodiscard]] std::string log_text() const {
    log_.flush();
    return must(read_file(dir_.path("log")));
  }

 private:
  std::unique_ptr<exec::DeviceGroup> compile(exec::Options::Purpose purpose) {
    const std::vector<int64_t> batches = must(exec::split_batch(kToyBatch, std::vector<double>(options_.devices, 1.0)));
    std::vector<std::unique_ptr<exec::Executor>> executors;
    for (size_t device = 0; device < batches.size(); device++) {
      executors.push_back(must(backend_->compile(options_.network,
                                                 {.purpose = purpose,
                                                  .batch_size = batches[device],
                                                  .inputs = {{.shape = {1, 6, 6}}},
                                                  .bucket_begin = options_.bucket_begin,
                                                  .dtype = options_.dtype,
                                                  .parameters_on_device = options_.parameters_on_device,
                                                  .keep_all = options_.keep_all},
                                                 training_ ? &training_->executor(device) : nullptr)));
    }
    return std::make_unique<exec::DeviceGroup>(std::move(executors), batches);
  }

  std::unique_ptr<kvstore::Store> own_store() {
    const kvstore::DeviceStoreOptions options{
        .rule = {.optimizer = spec_.optimizer, .schedule = spec_.schedule, .samples_per_epoch = spec_.epoch.samples},
        .bucket_begin = options_.bucket_begin};
    return options_.make_store ? options_.make_store(*training_, options, waits_)
                               : must(kvstore::DeviceStore::create(options, {}, nullptr, waits_));
  }
  Log must_log() {
    Log log = Log::silent();
    must(log.add_file(dir_.path("log")));
    return log;
  }

  TempDir dir_;
  telemetry::Registry registry_;
  TrainSpec spec_;
  ToyOptions options_;
  Log log_;
  std::atomic<bool> stop_ = false;
  LocalCoordinator alone_;
  std::unique_ptr<exec::Backend> backend_;
  std::unique_ptr<exec::DeviceGroup> training_, inference_;
  std::unique_ptr<data::Loader> training_data_, validation_data_;
  Waits waits_;
  std::unique_ptr<kvstore::Store> store_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace dtrain::train::test
