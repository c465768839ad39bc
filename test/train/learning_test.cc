// The synthetic data set is easy for a convolutional network after some training, and hard for a linear classifier. If
// lenet learns it, the whole path from record files to weights works.
#include <atomic>
#include <catch2/catch.hpp>

#include "data/open.h"
#include "graph/models/models.h"
#include "kvstore/worker/device_store.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "tools/synth.h"
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
  return std::make_unique<data::Loader>(
      dataset,
      data::LoaderOptions{
          .mode = mode, .share = {0, dataset->size()}, .batch_size = kBatch, .classes = kClasses, .seed = 1},
      Log::silent());
}

// Trains for `epochs` epochs; the outcome has the best and the last validation accuracy.
train::TrainOutcome train_on(const data::DataSets& data, const graph::Graph& network, int64_t epochs, double rate) {
  const auto backend = exec::make_cpu_backend();
  exec::Options options{.batch_size = kBatch, .image = kImage};
  exec::DeviceGroup training(must(backend->compile(network, options)), kBatch);
  options.purpose = exec::Options::Purpose::kInference;
  exec::DeviceGroup inference(must(backend->compile(network, options, &training.executor(0))), kBatch);
  const auto training_data = open_loader(data.train, data::LoaderOptions::Mode::kTraining);
  const auto validation_data = open_loader(data.validation, data::LoaderOptions::Mode::kValidation);

  train::TrainSpec spec;
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
  train::Trainer trainer(spec, {.graph = network,
                                .image = kImage,
                                .training = training,
                                .bucket_begin = {0},
                                .training_data = *training_data,
                                .inference = &inference,
                                .validation_data = validation_data.get(),
                                .store = *store,
                                .coordinator = coordinator,
                                .log = Log::silent()});
  return must(trainer.run());
}

}  // namespace

TEST_CASE("lenet learns the synthetic data set and a linear classifier does not", "[train][slow]") {
  const dtrain::test::TempDir dir;
  must(tools::synthesize({.out = dir.path()}, Log::silent()));
  data::DataOptions files;
  files.data_train = dir.path("train.rec");
  files.data_val = dir.path("test.rec");
  files.image_shape = kImage;
  files.scale = 1.0F / 128;
  const data::DataSets data = must(data::open_dataset(files, Log::silent()));

  const graph::Graph lenet = must(graph::build_model({.network = "lenet", .num_classes = kClasses, .image = kImage}));
  CHECK(*train_on(data, lenet, 1, 0.01).validation_accuracy < 0.6);
  CHECK(*train_on(data, lenet, 5, 0.01).validation_accuracy > 0.95);
  for (const double rate : {0.1, 0.01, 0.001}) {
    INFO("rate " << rate);
    CHECK(*train_on(data, linear_classifier(), 10, rate).best_validation_accuracy < 0.7);
  }
}
