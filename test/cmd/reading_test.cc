// What the program says about reading data: whether it limits training, and how fast it is without training.
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "small_model.h"
#include "support/catch.h"
#include "support/must.h"

namespace dtrain {

using Catch::Contains;
using test::Ended;
using test::must;
using test::TempDir;

namespace {

std::vector<std::string> small_run(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"--network",     "lenet",   "--data-dir",   "data", "--num-classes", "10",
                                    "--image-shape", "3,28,28", "--batch-size", "8",    "--run-dir",     "run"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void make_images(const TempDir& dir) {
  REQUIRE(test::in_directory(dir, {"data", "synth", "--out", "data", "--count", "60", "--size", "28"}).code == 0);
}

nlohmann::json json_of(const TempDir& dir, const std::string& file) {
  return nlohmann::json::parse(must(read_file(dir.path(file))));
}

// The last line of the metrics that has this key.
nlohmann::json last_with(const TempDir& dir, const std::string& key) {
  std::istringstream lines(must(read_file(dir.path("run/metrics.jsonl"))));
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains(key)) last = json;
  }
  return last;
}

}  // namespace

TEST_CASE("a run says whether data is the limit, in the log, the metrics and the summary", "[cmd]") {
  const TempDir dir;
  test::train_small(dir);
  const std::string log = must(read_file(dir.path("run/worker-0.log")));
  CHECK_THAT(log, Contains("images go to the devices as pixels, uint8"));
  CHECK_THAT(log, Contains(" of the time was spent waiting for batches; "));
  const nlohmann::json epoch = last_with(dir, "wait_data_share"), summary = json_of(dir, "run/summary.json");
  CHECK(epoch["wait_data_share"] >= 0);
  CHECK(epoch["decoders_busy_share"] > 0);
  CHECK(epoch["decode_ms"] > 0);
  CHECK(epoch["decode_threads"] >= 1);
  CHECK(summary["image_ms"]["decode"] > 0);
  const double share = summary["wait_data_share"];
  CHECK(summary["data_limit"].is_null() == !(share > 0.1));
  const Ended table = test::in_directory(dir, {"parse-log", "run"});
  CHECK(table.code == 0);
  CHECK_THAT(table.output, Contains("|  1 | "));
}

TEST_CASE("--test-io reads the training data once, without training", "[cmd]") {
  const TempDir dir;
  make_images(dir);
  const Ended ended = test::in_directory(dir, small_run({"--test-io", "1", "--disp-batches", "3"}));
  INFO(ended.output);
  CHECK(ended.code == 0);
  // 8 batches; the index is that of the last batch of the window.
  CHECK_THAT(ended.output,
             Contains("Node[0] Batch [2]\tSpeed: ") && Contains("Batch [5]\tSpeed: ") && !Contains("Batch [8]"));
  CHECK_THAT(ended.output, Contains("Read 64 images in ") && Contains("; ms per image: read ") && Contains("decode "));
  CHECK_THAT(ended.output, !Contains("Train-accuracy") && !Contains("Start training"));
  CHECK(json_of(dir, "run/summary.json")["samples"] == 64);
  CHECK(last_with(dir, "samples_per_s")["decode_ms"] > 0);
  CHECK_FALSE(std::filesystem::exists(dir.path("run/lenet-0001.params")));
}

TEST_CASE("--test-io in a job reads the share of each worker", "[cmd]") {
  const TempDir dir;
  make_images(dir);
  const Ended ended =
      test::in_directory(dir, small_run({"-n", "2", "-s", "1", "--test-io", "1", "--disp-batches", "4"}));
  INFO(ended.output);
  CHECK(ended.code == 0);
  for (const char* log : {"run/worker-0.log", "run/worker-1.log"}) {
    CHECK_THAT(must(read_file(dir.path(log))), Contains("Batch [3]\tSpeed: ") && Contains("Read 32 images in "));
  }
  CHECK(json_of(dir, "run/summary.json")["samples"] == 64);
}

TEST_CASE("--data-nthreads auto logs its decision once", "[cmd]") {
  const TempDir dir;
  const Ended ended =
      test::in_directory(dir, {"--network", "mlp", "--benchmark", "1", "--num-batches", "600", "--batch-size", "8",
                               "--num-epochs", "1", "--threads", "1", "--data-nthreads", "auto", "--run-dir", "run"});
  INFO(ended.output);
  CHECK(ended.code == 0);
  CHECK_THAT(ended.output, Contains("--data-nthreads auto: 1 thread decodes: ") && Contains("allows no other number"));
}

}  // namespace dtrain
