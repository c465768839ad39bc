// Which classes a network takes images for, and what a training writes about it.
#include "train/class_tally.h"

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "support/catch.h"
#include "toy_run.h"

namespace dtrain::train {
namespace {

using namespace dtrain::train::test;
using telemetry::ClassCounts;
using telemetry::JudgedImage;

// Batches of floats with two labels for each image, of which the second one is the result's.
struct Rows {
  std::vector<float> probabilities, labels, pixels;
  std::vector<int64_t> records;

  void add(std::vector<float> row, float label) {
    probabilities.insert(probabilities.end(), row.begin(), row.end());
    labels.insert(labels.end(), {-1, label});
    pixels.insert(pixels.end(), 128 * 128, label);
    records.push_back(static_cast<int64_t>(records.size()) + 100);
  }
  [[nodiscard]] data::LoadedBatch batch() const {
    data::LoadedBatch batch;
    batch.inputs[0] = {.floats = pixels};
    batch.labels = labels;
    batch.count = static_cast<int64_t>(records.size());
    batch.records = records;
    return batch;
  }
};

// A training whose validation is reported into the directory.
class Reported {
 public:
  Reported(const TempDir& dir, int64_t epochs)
      : report_(options(dir)), run_(toy_spec("", epochs), {.validation_watch = &report_}) {}
  ToyRun& run() { return run_; }

 private:
  ClassReport::Options options(const TempDir& dir) {
    Log log = Log::silent();
    must(log.add_file(dir.path("log")));
    return {.metrics = {},
            .image = {1, 6, 6},
            .dataset = set_,
            .class_names = {"a", "b", "c", "d"},
            .directory = dir.path(),
            .log = log};
  }
  ToyDataset set_;
  ClassReport report_;
  ToyRun run_;
};

const MetricSpec kSecondOfTwo{.heads = {{.name = "softmax", .label = 1}}, .labels = 2};

}  // namespace

TEST_CASE("rows are counted by label and prediction, and those without a prediction are not", "[train]") {
  Rows rows;
  rows.add({0.2F, 0.5F, 0.3F}, 0);
  rows.add({0.4F, 0.4F, 0.2F}, 1);  // of equal probabilities the lower class is the prediction
  rows.add({0.1F, 0.1F, 0.8F}, 2);
  rows.add({std::nanf(""), 0.1F, 0.8F}, 2);
  ClassTally tally(kSecondOfTwo, {});
  tally.add(rows.probabilities, rows.batch());
  CHECK(tally.counts().counts() == std::map<ClassCounts::Pair, int64_t>{{{0, 1}, 1}, {{1, 0}, 1}, {{2, 2}, 1}});
  const std::vector<JudgedImage> worst = tally.worst(ToyDataset());
  REQUIRE(worst.size() == 3);
  CHECK(worst[0].label == 0);
  CHECK(worst[0].prediction == 1);
  CHECK(worst[0].probability == 0.5F);
  CHECK(worst[0].loss == row_cross_entropy(0.2F));
  CHECK_THAT(worst[0].name, Catch::Contains("100"));
  CHECK(worst[0].image.empty());
  tally.start();
  CHECK(tally.counts().images() == 0);
  CHECK(tally.worst(ToyDataset()).empty());
}

TEST_CASE("the worst images of several batches are kept with small images", "[train]") {
  ClassTally tally(kSecondOfTwo, {1, 128, 128});
  for (int round = 0; round < 3; round++) {
    Rows rows;
    for (int i = 0; i < 15; i++) {
      const float p = static_cast<float>(15 * round + i + 1) / 100;
      rows.add({p, 1 - p}, 0);
    }
    tally.add(rows.probabilities, rows.batch());
  }
  const std::vector<JudgedImage> worst = tally.worst(ToyDataset());
  REQUIRE(worst.size() == telemetry::kWorstImages);
  CHECK(worst.front().loss == row_cross_entropy(0.01F));
  CHECK(worst.back().loss == row_cross_entropy(0.2F));
  for (const JudgedImage& image : worst) CHECK_THAT(image.image, Catch::StartsWith("iVBORw0KGgo"));  // of a PNG
}

TEST_CASE("a training writes how its last validation classified each class", "[train]") {
  const TempDir dir;
  Reported reported(dir, 2);
  ToyRun& run = reported.run();
  REQUIRE(run.run());
  const auto results = must(telemetry::parse_class_results(must(read_file(dir.path("validation-0.json")))));
  CHECK(results.epoch == 1);
  CHECK(results.step == 16);
  CHECK(results.workers == 1);
  CHECK(results.images == kToyRecords);
  CHECK(results.counts.images() == kToyRecords);
  CHECK(results.class_names == std::vector<std::string>{"a", "b", "c", "d"});
  CHECK(results.worst.size() == telemetry::kWorstImages);
  double right = 0;
  for (const telemetry::ClassAccuracy& one : results.counts.accuracies()) right += static_cast<double>(one.right);
  CHECK(right / static_cast<double>(kToyRecords) == run.metric(telemetry::Metric::kValidationAccuracy));
}

TEST_CASE("a directory that cannot be written to does not end a training", "[train]") {
  const TempDir dir;
  std::filesystem::create_directories(dir.path("validation-0.json/in-the-way"));
  Reported reported(dir, 1);
  REQUIRE(reported.run().run());
  CHECK_THAT(must(read_file(dir.path("log"))),
             Catch::Contains("a report of this run will lack the newest validation: "));
}

}  // namespace dtrain::train
