// The synthetic data set is easy for a convolutional network after some training, and hard for a linear classifier. If
// lenet learns it, the whole path from record files to weights works.
#include <atomic>
#include <memory>

#include "data/loading/open.h"
#include "dataset/synth.h"
#include "graph/fine_tune.h"
#include "graph/models/models.h"
#include "kvstore/worker/device_store.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "telemetry/registry.h"
#include "train/local_coordinator.h"
#include "train/trainer.h"

using namespace dtrain;
using dtrain::test::must;

namespace {

constexpr int64_t kBatch = 64;
constexpr int64_t kClasses = 10;
const Shape kImage = {3, 32, 32};

// Softmax regression.
graph::Graph linear_classifier() {
  graph::Graph g;
  const graph::NodeId data = g.add("data", graph::Input{}, {});
  const graph::NodeId flat = g.add("flatten", graph::Flatten{}, {data});
  const graph::NodeId fc = g.add("fc1", graph::FullyConnected{.outputs = kClasses}, {flat});
  g.add("softmax", graph::SoftmaxOutput{}, {fc});
  return g;
}

std::unique_ptr<data::Loader> open_loader(const std::shared_ptr<const data::Dataset>& dataset,
                                          data::LoaderOptions::Mode mode) {
  return std::make_unique<data::Loader>(dataset,
                                        data::LoaderOptions{.mode = mode,
                                                            .share = {0, dataset->size()},
                                                            .batch_size = kBatch,
                                                            .labels = {{.name = {}, .classes = kClasses}},
                                                            .seed = 1},
                                        Log::silent());
}

struct Files {
  std::string save_prefix, pretrained;
};

struct Accuracy {
  double last, best;  // of the validations after the epochs
};
Accuracy train_on(const data::DataSets& data, const graph::Graph& network, int64_t epochs, double rate,
                  const Files& model = {}) {
  const auto backend = exec::make_cpu_backend();
  exec::Options options{.batch_size = kBatch, .inputs = {{.shape = data.train->image()}}, .threads = 2};
  exec::DeviceGroup training(must(backend->compile(network, options)), kBatch);
  options.purpose = exec::Options::Purpose::kInference;
  exec::DeviceGroup inference(must(backend->compile(network, options, &training.executor(0))), kBatch);
  const auto training_data = open_loader(data.train, data::LoaderOptions::Mode::kTraining);
  const auto validation_data = open_loader(data.validation, data::LoaderOptions::Mode::kValidation);

  train::TrainSpec spec;
  spec.save_prefix = model.save_prefix;
  spec.pretrained = model.pretrained;
  spec.num_epochs = epochs;
  spec.batch_size = kBatch;
  spec.epoch = {.samples = static_cast<uint64_t>(training_data->batches() * kBatch),
                .samples_per_step = kBatch,
                .samples_per_update = kBatch};
  spec.schedule.base = rate;
  spec.initializer = must(optim::parse_initializer("xavier(gaussian,in,2)"));
  spec.seed = 1;
  Waits waits;
  const auto store = must(kvstore::DeviceStore::create(
      {.rule = {.optimizer = spec.optimizer,
                .schedule = spec.schedule,
                .samples_per_epoch = static_cast<uint64_t>(training_data->batches() * kBatch)}},
      {}, nullptr, waits));
  const std::atomic<bool> never = false;
  train::LocalCoordinator coordinator(never);
  telemetry::Registry registry;
  train::Trainer trainer(spec, {.graph = network,
                                .inputs = {{.shape = data.train->image()}},
                                .training = training,
                                .bucket_begin = {0},
                                .training_data = *training_data,
                                .inference = &inference,
                                .validation_data = validation_data.get(),
                                .store = *store,
                                .coordinator = coordinator,
                                .waits = waits,
                                .registry = registry,
                                .log = Log::silent()});
  REQUIRE(trainer.run());
  const telemetry::Snapshot metrics = registry.snapshot();
  return {.last = value_of(metrics, telemetry::Metric::kRunValidationAccuracy).value(),
          .best = value_of(metrics, telemetry::Metric::kBestValidationAccuracy).value()};
}

// The first `most` records of some classes, which are numbered from 0 here.
class SomeClasses final : public data::Dataset {
 public:
  SomeClasses(std::shared_ptr<const data::Dataset> all, int64_t first_class, int64_t classes, size_t most)
      : all_(std::move(all)), first_class_(first_class) {
    std::vector<float> pixels(static_cast<size_t>(element_count(all_->image())));
    RandomStream random(1, Use::kTest);
    for (int64_t i = 0; i < all_->size() && records_.size() < most; i++) {
      float value = 0;
      must(all_->load(i, random, pixels, {&value, 1}));
      const auto label = static_cast<int64_t>(value);
      if (label >= first_class && label < first_class + classes) records_.push_back(i);
    }
  }
  [[nodiscard]] int64_t size() const override { return std::ssize(records_); }
  [[nodiscard]] const Shape& image() const override { return all_->image(); }
  Result<> load(int64_t index, RandomStream& random, std::span<float> out, std::span<float> labels) const override {
    DT_TRY_VOID(all_->load(records_[static_cast<size_t>(index)], random, out, labels));
    labels[0] -= static_cast<float>(first_class_);
    return {};
  }

 private:
  std::shared_ptr<const data::Dataset> all_;
  int64_t first_class_;
  std::vector<int64_t> records_;
};

data::DataSets some_classes(const data::DataSets& data, int64_t first_class, size_t most) {
  constexpr int64_t kHalf = kClasses / 2;
  return {.train = std::make_shared<SomeClasses>(data.train, first_class, kHalf, most),
          .validation = std::make_shared<SomeClasses>(data.validation, first_class, kHalf, 100000),
          .classes = kHalf};
}

}  // namespace

TEST_CASE("lenet learns the synthetic data set and a linear classifier does not", "[train][slow]") {
  const dtrain::test::TempDir dir;
  must(dataset::synthesize({.out = dir.path()}, Log::silent()));
  data::DataOptions files;
  files.data_train = dir.path("train.rec");
  files.data_val = dir.path("test.rec");
  files.image_shape = kImage;
  files.scale = 1.0F / 128;
  const data::DataSets data = must(data::open_dataset(files, Log::silent()));

  const graph::Graph lenet = must(graph::build_model({.network = "lenet", .num_classes = kClasses, .image = kImage}));
  CHECK(train_on(data, lenet, 1, 0.01).last < 0.6);
  CHECK(train_on(data, lenet, 5, 0.01).last > 0.95);
  for (const double rate : {0.1, 0.01, 0.001}) {
    INFO("rate " << rate);
    CHECK(train_on(data, linear_classifier(), 10, rate).best < 0.7);
  }
}

// Half of the classes are learned from many images. Their lower layers then serve the other half, of which there are
// few images.
TEST_CASE("a network that was fine-tuned is better than one that begins with nothing", "[train][slow]") {
  const dtrain::test::TempDir dir;
  must(dataset::synthesize({.out = dir.path()}, Log::silent()));
  data::DataOptions files;
  files.data_dir = dir.path();
  files.scale = 1.0F / 128;
  const data::DataSets all = must(data::open_dataset(files, Log::silent()));
  const graph::Graph network = must(graph::build_model(
      {.network = "inception-bn-28-small", .num_layers = 0, .num_classes = kClasses / 2, .image = all.train->image()}));
  const std::string prefix = dir.path("net");
  CHECK(train_on(some_classes(all, 0, 100000), network, 3, 0.05, {.save_prefix = prefix, .pretrained = {}}).last > 0.8);

  graph::Graph tuned = must(graph::with_new_head(network, "auto", kClasses / 2));
  must(graph::apply_rates({"convolution?=0", "batchnorm?=0"}, tuned));
  const data::DataSets few = some_classes(all, kClasses / 2, 2 * kBatch);
  const double fine_tuned =
      train_on(few, tuned, 6, 0.02, {.save_prefix = {}, .pretrained = prefix + "-0003.params"}).last;
  const double from_nothing = train_on(few, network, 6, 0.05).last;
  INFO("fine-tuned " << fine_tuned << ", from nothing " << from_nothing);
  CHECK(fine_tuned > from_nothing + 0.1);
}
