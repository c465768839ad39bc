#include "product.h"
#include "pixels.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "base/waits.h"
#include "cases.h"
#include "data/loading/loader.h"
#include "exec/device_group.h"
#include "graph/models/models.h"
#include "images.h"
#include "kvstore/worker/device_store.h"
#include "modes.h"
#include "role/setup/device_loader.h"
#include "steps.h"
#include "telemetry/registry.h"
#include "telemetry/tracer.h"
#include "train/local_coordinator.h"
#include "train/trainer.h"

namespace dtrain::gpu {

namespace {

const Shape kImage = {1, 28, 28};
constexpr int64_t kClasses = 10;

Result<std::unique_ptr<exec::Backend>> module_backend(exec::DeviceModule& module) {
  return module.make_backend(0, {.deterministic = true}, Log::silent());
}

Result<graph::Graph> model(const std::string& network) {
  return graph::build_model({.network = network, .num_classes = kClasses, .image = kImage});
}

struct PixelStep {
  double error = 0;        // relative to the reference
  bool same_bits = false;  // compared with the step on the floats that the pixels stand for
};

Result<exec::test::Step> step_of(exec::Backend& backend, const graph::Graph& graph, const exec::Options& options,
                                 const exec::Batch& batch) {
  DT_TRY(const auto executor, backend.compile(graph, options));
  executor->set_loss_scale({256});
  fill_parameters(executor->parameters(), exec::test::Values::kFloats, 1);
  return exec::test::run_step(*executor, batch);
}

Result<PixelStep> pixel_step(exec::DeviceModule& module, const Mode& mode) {
  constexpr int64_t kBatch = 4;
  DT_TRY(const graph::Graph graph, model("lenet"));
  const exec::test::PixelBatch pixels = exec::test::make_pixels(kImage, kBatch, kClasses, false, 1);
  const exec::test::HostBatch floats = pixels.floats();
  const exec::Options options{.batch_size = kBatch, .inputs = {{.shape = kImage}}};
  DT_TRY(const auto backend, module_backend(module));
  exec::Options tested = mode.options(options);
  DT_TRY(const exec::test::Step expected, step_of(*exec::make_reference_backend(), graph, options, floats.view()));
  DT_TRY(const exec::test::Step on_floats, step_of(*backend, graph, tested, floats.view()));
  tested.inputs[0].normalisation = pixels.normalisation;
  DT_TRY(const exec::test::Step on_pixels, step_of(*backend, graph, tested, pixels.view()));
  const double floor = exec::test::gradient_floor(expected);
  return PixelStep{.error = largest_difference(expected, on_pixels, floor).error,
                   .same_bits = equal_bits(on_floats, on_pixels)};
}

// MNIST's digits, or patterns in which each class has its own bright block.
class Digits final : public data::Dataset {
 public:
  explicit Digits(LabeledImages images) : images_(std::move(images)) {}
  [[nodiscard]] int64_t size() const override { return images_.count(); }
  [[nodiscard]] const Shape& image() const override { return kImage; }
  [[nodiscard]] std::shared_ptr<const Normalisation> normalisation() const override { return normalisation_; }
  Result<> load(int64_t index, RandomStream&, std::span<float> out, std::span<float> labels) const override {
    constexpr uint8_t kNotMirrored = 0;
    normalisation_->apply(pixels_of(index), {&kNotMirrored, 1}, out);
    labels[0] = label(index);
    return {};
  }
  Result<bool> load_pixels(int64_t index, RandomStream&, std::span<uint8_t> out,
                           std::span<float> labels) const override {
    std::ranges::copy(pixels_of(index), out.begin());
    labels[0] = label(index);
    return false;
  }

 private:
  [[nodiscard]] float label(int64_t index) const { return images_.labels[static_cast<size_t>(index)]; }
  [[nodiscard]] std::span<const uint8_t> pixels_of(int64_t index) const {
    const auto each = static_cast<size_t>(element_count(kImage));
    return std::span(images_.pixels).subspan(static_cast<size_t>(index) * each, each);
  }

  LabeledImages images_;
  std::shared_ptr<const Normalisation> normalisation_ =
      std::make_shared<Normalisation>(kImage, std::vector<float>{0}, std::vector<float>{1.0F / 255}, nullptr);
};

LabeledImages drawn_patterns(int64_t count) {
  RandomStream random(1, Use::kSynthetic);
  LabeledImages images{.shape = kImage, .pixels = {}, .labels = {}};
  for (int64_t i = 0; i < count; i++) {
    const int64_t label = i % kClasses, top = label / 5 * 14, left = label % 5 * 5;
    images.labels.push_back(static_cast<uint8_t>(label));
    for (int64_t y = 0; y < kImage[1]; y++) {
      for (int64_t x = 0; x < kImage[2]; x++) {
        const bool bright = y / 14 * 14 == top && left <= x && x < left + 8;
        images.pixels.push_back(static_cast<uint8_t>(random.below(128) + (bright ? 100 : 0)));
      }
    }
  }
  return images;
}

// The objects around a Trainer, created as dtrain does for one GPU.
class Training {
 public:
  static Result<std::unique_ptr<Training>> create(exec::DeviceModule& module, Product product, LabeledImages images) {
    std::unique_ptr<Training> training(new Training(std::move(product), std::move(images)));
    DT_TRY_VOID(training->build(module));
    return training;
  }
  telemetry::Tracer& tracer() { return tracer_; }
  // Returns the metrics of the run.
  Result<telemetry::Snapshot> run() {
    train::TrainSpec spec;
    spec.num_epochs = product_.epochs;
    spec.batch_size = product_.batch;
    spec.optimizer = optimizer_;
    spec.schedule = schedule_;
    spec.seed = 1;
    spec.epoch = {.samples = samples(), .samples_per_step = batch(), .samples_per_update = batch()};
    DT_TRY(spec.loss_scale, train::LossScale::parse("dynamic"));
    const std::atomic<bool> stop = false;
    train::LocalCoordinator alone(stop);
    telemetry::Registry registry;
    train::Trainer trainer(spec, {.graph = graph_,
                                  .inputs = {{kImage, data_->normalisation()}},
                                  .training = *training_,
                                  .bucket_begin = {0},
                                  .training_data = *training_data_,
                                  .inference = inference_.get(),
                                  .validation_data = validation_data_.get(),
                                  .store = *store_,
                                  .coordinator = alone,
                                  .waits = waits_,
                                  .tracer = &tracer_,
                                  .registry = registry,
                                  .log = Log::to_stderr(product_.network)});
    DT_TRY_VOID(trainer.run());
    return registry.snapshot();
  }

 private:
  Training(Product product, LabeledImages images)
      : product_(std::move(product)), data_(std::make_shared<Digits>(std::move(images))) {}
  [[nodiscard]] uint64_t batch() const { return static_cast<uint64_t>(product_.batch); }
  [[nodiscard]] int64_t batches() const { return data_->size() / product_.batch; }
  [[nodiscard]] uint64_t samples() const { return static_cast<uint64_t>(batches()) * batch(); }

  Result<> build(exec::DeviceModule& module) {
    DT_TRY(graph_, model(product_.network));
    DT_TRY(backend_, module_backend(module));
    DT_TRY(training_, compile(exec::Options::Purpose::kTraining));
    DT_TRY(inference_, compile(exec::Options::Purpose::kInference));
    training_data_ = loader(data::LoaderOptions::Mode::kTraining);
    validation_data_ = loader(data::LoaderOptions::Mode::kValidation);
    kvstore::DeviceStore::Optimizers optimizers;
    DT_TRY(optimizers.emplace_back(), module.make_optimizer(training_->executor(0), optimizer_));
    kvstore::DeviceStoreOptions options{
        .rule = {.optimizer = optimizer_, .schedule = schedule_, .samples_per_epoch = samples()}};
    DT_TRY(store_, kvstore::DeviceStore::create_on_devices(options, {}, std::move(optimizers), waits_));
    return {};
  }
  Result<std::unique_ptr<exec::DeviceGroup>> compile(exec::Options::Purpose purpose) {
    DT_TRY(std::unique_ptr<exec::Executor> executor, backend_->compile(graph_,
                                                                       {.purpose = purpose,
                                                                        .batch_size = product_.batch,
                                                                        .inputs = {{kImage, data_->normalisation()}},
                                                                        .dtype = Type::kFloat16,
                                                                        .parameters_on_device = true,
                                                                        .timeline = &tracer_.timeline()},
                                                                       training_ ? &training_->executor(0) : nullptr));
    auto group = std::make_unique<exec::DeviceGroup>(std::move(executor), product_.batch);
    group->record_on(&tracer_.timeline());
    return group;
  }
  std::unique_ptr<data::Loader> loader(data::LoaderOptions::Mode mode) {
    const bool trains = mode == data::LoaderOptions::Mode::kTraining;
    return std::make_unique<data::Loader>(data_,
                                          data::LoaderOptions{.mode = mode,
                                                              .share = {0, data_->size()},
                                                              .batch_size = product_.batch,
                                                              .batches = trains ? batches() : 0,
                                                              .labels = {{.name = {}, .classes = kClasses}},
                                                              .pixels = true,
                                                              .allocate = backend_->batch_memory(),
                                                              .seed = 1,
                                                              .threads = 2},
                                          Log::silent());
  }

  const Product product_;
  const std::shared_ptr<Digits> data_;
  const optim::OptimizerSpec optimizer_ = {.momentum = 0.9, .weight_decay = 1e-4};
  const optim::ScheduleSpec schedule_ = {.base = 0.05};
  graph::Graph graph_;
  telemetry::Tracer tracer_{Log::silent()};
  Waits waits_;
  std::unique_ptr<exec::Backend> backend_;
  std::unique_ptr<exec::DeviceGroup> training_, inference_;
  std::unique_ptr<data::Loader> training_data_, validation_data_;
  std::unique_ptr<kvstore::Store> store_;
};

}  // namespace

Result<Outcome> step_from_pixels(Machine& machine) {
  DT_TRY(const auto module, role::load_devices(machine.module_path()));
  Json numbers = Json::object();
  std::string text;
  bool good = true;
  for (const char* name : {"float32", "float16"}) {
    const Mode mode = mode_of(name);
    DT_TRY(const PixelStep step, pixel_step(*module, mode));
    // The reference computes in float32. float16 rounds each of some twenty tensors on the way to 2^-11 of its values,
    // which adds up to some percent in the sums of both passes.
    const double tolerance = mode.type == Type::kFloat32 ? 1e-4 : 0.1;
    numbers[std::string(name) + "_error"] = step.error;
    good = good && step.error <= tolerance && step.same_bits;
    text += fmt::format("{}{}: error {:.2g}, tolerance {:.2g}, {} bits as of floats", text.empty() ? "" : "; ", name,
                        step.error, tolerance, step.same_bits ? "the same" : "other");
  }
  return good ? passed(text, numbers) : failed(text, numbers);
}

Result<Outcome> train_by_trainer(Machine& machine, const Settings& settings, const Product& product) {
  DT_TRY(const auto module, role::load_devices(machine.module_path()));
  LabeledImages images;
  if (settings.data.empty()) {
    images = drawn_patterns(product.patterns);
  } else {
    DT_TRY(images, read_images(settings.data, "mnist"));
  }
  DT_TRY(const auto training, Training::create(*module, product, std::move(images)));
  DT_TRY(const telemetry::Snapshot metrics, training->run());
  using telemetry::Metric;
  const double accuracy = value_of(metrics, Metric::kRunValidationAccuracy).value_or(0);
  const double images_per_s = value_of(metrics, Metric::kRunSamplesPerS).value_or(0);
  const Json numbers = {{"accuracy", accuracy},
                        {"accuracy_min", product.accuracy_min},
                        {"images_per_s", images_per_s},
                        {"wait_data_share", value_of(metrics, Metric::kRunWaitDataShare).value_or(0)}};
  const std::string text = fmt::format("{} epochs: accuracy {:.4f} (at least {}), {:.0f} images/s", product.epochs,
                                       accuracy, product.accuracy_min, images_per_s);
  return accuracy >= product.accuracy_min ? passed(text, numbers) : failed(text, numbers);
}

Result<Outcome> trace_by_trainer(Machine& machine, const Product& product, uint64_t steps, const JudgeTrace& judge) {
  DT_TRY(const auto module, role::load_devices(machine.module_path()));
  DT_TRY(const auto training, Training::create(*module, product, drawn_patterns(product.patterns)));
  training->tracer().request_at_start(steps);
  DT_TRY_VOID(training->run());
  training->tracer().finish();
  return judge(training->tracer().timeline().rows());
}

}  // namespace dtrain::gpu
