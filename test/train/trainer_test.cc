#include "train/trainer.h"

#include <algorithm>
#include <barrier>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>
#include <thread>

#include "base/json.h"
#include "job/flags/flags.h"
#include "support/catch.h"
#include "toy_run.h"
#include "train/run_metrics.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;
using telemetry::Metric;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// The kind of each line: the text before its first value. Whether data is the limit depends on the host.
std::vector<std::string> kinds(const std::vector<std::string>& lines) {
  std::vector<std::string> kinds;
  for (const std::string& line : lines) {
    const size_t data = line.find("] data"), epoch = line.find("  loss ");
    kinds.push_back(epoch != line.npos  ? line.substr(0, epoch)
                    : data != line.npos ? line.substr(0, data + 6)
                                        : line.substr(0, line.find_first_of("=\t\"")));
  }
  return kinds;
}

// Coordinators of workers that are threads of one process.
class ThreadJob {
 public:
  explicit ThreadJob(uint32_t workers) : workers_(workers), barrier_(workers), values_(workers), messages_(workers) {}

  class Member final : public job::Coordinator {
   public:
    Member(ThreadJob& job, uint32_t rank) : job_(job), rank_(rank) {}
    [[nodiscard]] uint32_t rank() const override { return rank_; }
    [[nodiscard]] uint32_t workers() const override { return job_.workers_; }
    Result<bool> may_begin(uint64_t step) override { return step < stop_at; }
    Result<std::vector<double>> sum(const std::string&, std::span<const double> values) override {
      job_.values_[rank_].assign(values.begin(), values.end());
      job_.barrier_.arrive_and_wait();
      std::vector<double> sums(values.size(), 0.0);
      for (const std::vector<double>& of_rank : job_.values_) {
        for (size_t i = 0; i < sums.size(); i++) sums[i] += of_rank.at(i);
      }
      job_.barrier_.arrive_and_wait();
      return sums;
    }
    void report(const job::WorkerProgress&) override {}
    uint64_t stop_at = std::numeric_limits<uint64_t>::max();

   private:
    Result<std::vector<job::Contribution>> gather(const std::string&, job::Contribution own,
                                                  std::span<const uint32_t>) override {
      job_.messages_[rank_] = std::move(own);
      job_.barrier_.arrive_and_wait();
      std::vector<job::Contribution> all = job_.messages_;
      job_.barrier_.arrive_and_wait();
      return all;
    }

    ThreadJob& job_;
    uint32_t rank_;
  };

 private:
  uint32_t workers_;
  std::barrier<> barrier_;
  std::vector<std::vector<double>> values_;
  std::vector<job::Contribution> messages_;
};

}  // namespace

TEST_CASE("the log lines of an epoch have the documented order", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec(dir.path("net"), 2);
  spec.metrics = {.top_k = {2}, .losses = {"ce"}};
  ToyRun run(spec);
  REQUIRE(run.run());
  const std::vector<std::string> expected = {
      "Epoch[0] Batch [0-4]",
      "Epoch[0] Train-accuracy",
      "Epoch[0] Train-top_k_accuracy_2",
      "Epoch[0] Train-cross-entropy",
      "Epoch[0] Time cost",
      "Epoch[0] data",
      "Epoch[0] Validation-accuracy",
      "Epoch[0] Validation-top_k_accuracy_2",
      "Epoch[0] Validation-cross-entropy",
      "epoch 1/2",
      "Update[9]: Change learning rate to 2.50000e-02",
      "Epoch[1] Batch [0-4]",
  };
  std::vector<std::string> found = kinds(run.lines());
  // These lines are written while the run goes on, so they may come later.
  const auto saved =
      std::ranges::stable_partition(found, [](const std::string& kind) { return !kind.starts_with("Saved "); });
  const std::vector<std::string> of_first_epoch = {"Saved checkpoint to ",  // the best
                                                   "Saved checkpoint to ", "Saved optimizer state to "};
  REQUIRE(saved.size() >= of_first_epoch.size());
  CHECK(std::ranges::equal(saved | std::views::take(of_first_epoch.size()), of_first_epoch));
  REQUIRE(found.size() > expected.size());
  found.resize(expected.size());
  CHECK(found == expected);
}

TEST_CASE("the toy network learns the toy images", "[train]") {
  ToyRun run(toy_spec("", 10));
  const auto outcome = run.run();
  REQUIRE(outcome);
  CHECK(*run.metric(Metric::kRunValidationAccuracy) > 0.9);
  CHECK(*run.metric(Metric::kBestValidationAccuracy) >= *run.metric(Metric::kRunValidationAccuracy));
  CHECK(run.metric(Metric::kRunEpochs) == 10);
  CHECK(run.samples() == 10 * 8 * kToyBatch);
  CHECK(*run.metric(Metric::kRunSamplesPerS) > 0);
  CHECK(*run.metric(Metric::kRunWaitDataShare) > 0);
  CHECK(*run.metric(Metric::kRunWaitDataShare) < 1);
}

TEST_CASE("checkpoints are written every save_period epochs", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec(dir.path("net"), 5);
  spec.save_period = 2;
  spec.save_optimizer_states = false;
  REQUIRE(ToyRun(spec).run());
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) files.push_back(entry.path().filename());
  std::sort(files.begin(), files.end());
  CHECK(files == std::vector<std::string>{"net-0002.params", "net-0004.params", "net-best.params", "net-symbol.json"});
}

TEST_CASE("metrics.jsonl has one JSON object per line", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec("", 1);
  spec.metrics_path = dir.path("metrics.jsonl");
  REQUIRE(ToyRun(spec).run());
  std::istringstream text(must(read_file(spec.metrics_path)));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  REQUIRE(lines.size() == 3);  // of a window, of the epoch and of the validation
  for (const auto& line : lines) {
    CHECK(line["role"] == "worker");
    CHECK(line["rank"] == 0);
    CHECK(line["epoch"] == 0);
    CHECK(line["time"] > 1.6e9);
  }
  CHECK(lines[0]["step"] == 5);
  for (const char* key :
       {"train_accuracy", "train_cross_entropy", "lr", "samples_per_s", "wait_data_s", "wait_network_s"}) {
    CHECK(lines[0].contains(key));
  }
  CHECK(lines[1]["step"] == 8);
  CHECK(lines[1]["bad_records"] == 0);
  CHECK(lines[2].contains("validation_accuracy"));
  CHECK(lines[2]["validation_cross_entropy"] > 0);
  // The first window ends with batch 4; an epoch has 8 batches.
  for (const auto& [line, samples] : {std::pair{0, 25}, {1, 40}, {2, 40}}) {
    CHECK(lines[static_cast<size_t>(line)]["samples"] == samples);
    CHECK(lines[static_cast<size_t>(line)]["seconds"] > 0);
  }
  CHECK(lines[0]["seconds"] <= lines[1]["seconds"]);
}

// metrics.jsonl has both, but whoever watches the run draws a curve of what the registry has.
TEST_CASE("the live training metrics are those of windows, also after an epoch's end", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec("", 2);
  spec.metrics_path = dir.path("metrics.jsonl");
  spec.metrics.top_k = {2};
  ToyRun run(spec);
  REQUIRE(run.run());
  std::istringstream text(must(read_file(spec.metrics_path)));
  nlohmann::json window, epoch;  // the last ones
  for (std::string line; std::getline(text, line);) {
    const nlohmann::json object = nlohmann::json::parse(line);
    if (object.contains("train_cross_entropy")) (object.contains("samples_per_s") ? window : epoch) = object;
  }
  REQUIRE(window["train_cross_entropy"] != epoch["train_cross_entropy"]);
  CHECK(run.metric(Metric::kTrainCrossEntropy) == window["train_cross_entropy"].get<double>());
  CHECK(run.metric(Metric::kTrainAccuracy) == window["train_accuracy"].get<double>());
  CHECK(value_of(run.metrics(), Metric::kTrainMetric, "top_k_accuracy_2") ==
        window["train_metric"]["top_k_accuracy_2"].get<double>());
  CHECK(run.metric(Metric::kRunTrainAccuracy) == epoch["train_accuracy"].get<double>());
}

TEST_CASE("an epoch that is shorter than a window is one for those who watch", "[train]") {
  TrainSpec spec = toy_spec("", 1);
  spec.disp_batches = 100;
  ToyRun run(spec);
  REQUIRE(run.run());
  CHECK(run.metric(Metric::kTrainAccuracy) == run.metric(Metric::kRunTrainAccuracy));
}

// Windows of one batch follow each other in much less than a second.
TEST_CASE("the use of memory and GPUs is in metrics.jsonl, at most once a second and for each epoch", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec("", 2);
  spec.metrics_path = dir.path("metrics.jsonl");
  spec.disp_batches = 1;
  ToyRun run(spec);
  int asked = 0;
  const telemetry::Registry::Handle use = run.registry().collect([&](telemetry::Registry& to) {
    to.set(telemetry::Metric::kGpuBusyShare, 0.25 * ++asked, "1");
    to.set(telemetry::Metric::kMemoryBytes, 4096);
  });
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(run.run());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::istringstream text(must(read_file(spec.metrics_path)));
  int windows = 0, epochs = 0;
  for (std::string line; std::getline(text, line);) {
    const nlohmann::json object = nlohmann::json::parse(line);
    if (!object.contains("memory_bytes")) continue;
    (object.contains("samples_per_s") ? windows : epochs)++;
    CHECK(object["memory_bytes"] == 4096);
    CHECK(object["gpu_busy_share"]["1"] == 0.25 * (windows + epochs));
  }
  CHECK(epochs == 2);
  CHECK(windows >= 1);
  CHECK(windows <= 1 + seconds.count());
}

// The log, metrics.jsonl and the metrics of the run must agree.
TEST_CASE("the time to each level of training and validation accuracy is logged", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec("", 3);
  spec.metrics_path = dir.path("metrics.jsonl");
  spec.log_time_to = 0.25;
  ToyRun run(spec);
  REQUIRE(run.run());
  std::vector<nlohmann::json> reached;
  std::istringstream text(must(read_file(spec.metrics_path)));
  std::vector<double> best = {0, 0};  // of training and validation, as written
  for (std::string line; std::getline(text, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("time_to_accuracy")) reached.push_back(json);
    if (json.contains("validation_accuracy")) best[1] = std::max(best[1], json["validation_accuracy"].get<double>());
  }
  std::vector<std::vector<TimeToAccuracy>> expected = {reached_levels(run.metrics(), DataSet::kTraining),
                                                       reached_levels(run.metrics(), DataSet::kValidation)};
  REQUIRE(expected[1].size() == static_cast<size_t>(best[1] / 0.25));
  REQUIRE(expected[0].size() >= 2);
  REQUIRE(reached.size() == expected[0].size() + expected[1].size());
  std::vector<size_t> next = {0, 0};
  for (const auto& json : reached) {
    const auto set = json["validation"].get<size_t>();
    const TimeToAccuracy& level = expected.at(set).at(next.at(set)++);
    CHECK(json["accuracy"] == level.accuracy);
    CHECK(json["time_to_accuracy"] == level.seconds);
    CHECK(json["samples"] == level.samples);
    CHECK(level.samples % 5 == 0);
    CHECK(level.seconds > 0);
  }
  CHECK_THAT(run.log_text(),
             Catch::Contains("Reached train-accuracy ") && Catch::Contains("Reached validation-accuracy "));
}

TEST_CASE("the time to an accuracy is not logged by default", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec("", 1);
  spec.metrics_path = dir.path("metrics.jsonl");
  ToyRun run(spec);
  REQUIRE(run.run());
  CHECK(reached_levels(run.metrics(), DataSet::kTraining).empty());
  CHECK_THAT(run.log_text(), !Catch::Contains("Reached"));
  CHECK_THAT(must(read_file(spec.metrics_path)), !Catch::Contains("time_to_accuracy"));
}

// Weights are finite but an image is not: the message names step, rank and the first layer.
TEST_CASE("a non-finite loss ends the run with an error that names step and rank and layer", "[train]") {
  const auto spoil = [](int64_t index, std::span<float> image) {
    if (index == 11) image[7] = kInf;
  };
  ToyRun run(toy_spec("", 1), {.change = spoil, .network = linear_network(), .bucket_begin = {0}});
  const auto outcome = run.run();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Code::kInternal);
  CHECK_THAT(outcome.error().message, Catch::Contains("step ") && Catch::Contains("rank 0") &&
                                          Catch::Contains("loss is not finite") && Catch::Contains("'data'"));
  CHECK(run.metric(Metric::kRunEpochs) == 0);
}

TEST_CASE("a non-finite validation loss ends the run, or is a warning with --on-nan skip", "[train]") {
  const auto spoil = [](int64_t index, std::span<float> image) {
    if (index == 11) image[7] = kInf;
  };
  TrainSpec spec = toy_spec("", 1);
  const ToyOptions options{.change_validation = spoil, .network = linear_network(), .bucket_begin = {0}};
  ToyRun run(spec, options);
  const auto outcome = run.run();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Code::kInternal);
  CHECK_THAT(outcome.error().message, Catch::Contains("epoch 1: the validation loss is not finite; train"));

  spec.on_nan = job::OnNan::kSkip;
  ToyRun tolerant(spec, options);
  REQUIRE(tolerant.run());
  CHECK_THAT(tolerant.log_text(), Catch::Contains("warning: epoch 1: the validation loss is not finite\n"));
}

TEST_CASE("a non-finite loss is ignored with --on-nan skip", "[train]") {
  const auto spoil = [](int64_t index, std::span<float> image) {
    if (index == 11) image[7] = kInf;
  };
  TrainSpec spec = toy_spec("", 1);
  spec.on_nan = job::OnNan::kSkip;
  ToyRun run(spec, {.change = spoil, .network = linear_network(), .bucket_begin = {0}});
  REQUIRE(run.run());
  CHECK_THAT(run.log_text(), Catch::Contains("skipped, because the loss is not finite"));
  CHECK(*run.metric(Metric::kRunTrainAccuracy) > 0);
}

TEST_CASE("non-finite steps are ignored with --on-nan skip", "[train]") {
  const auto spoil = [](int64_t index, std::span<float> image) {
    if (index == 11) image[7] = kInf;
  };
  TrainSpec spec = toy_spec("", 2);
  spec.on_nan = job::OnNan::kSkip;
  ToyRun run(spec, {.change = spoil});
  const auto outcome = run.run();
  REQUIRE(outcome);
  CHECK(run.samples() < 2 * 8 * kToyBatch);
  CHECK(run.samples() >= (2 * 8 - 4) * kToyBatch);  // record 11 comes at most twice an epoch
  for (const ParameterSpan& p : run.training().parameters().parameters) {
    for (const float w : p.weight) REQUIRE(std::isfinite(w));
  }
  CHECK(*run.metric(Metric::kRunValidationAccuracy) > 0.5);  // no moving statistic kept a NaN
  CHECK_THAT(run.log_text(), Catch::Contains("skipped, because the ") && Catch::Contains("is not finite"));
}

// Record 11 comes at least once in the eight batches of an epoch. A worker that is alone makes no update of its step,
// so the next step has the same number.
TEST_CASE("a step that is left out is traced, says so, and counts as one of the steps of the trace", "[train]") {
  const auto spoil = [](int64_t index, std::span<float> image) {
    if (index == 11) image[7] = kInf;
  };
  const TempDir dir;
  telemetry::Tracer tracer(Log::silent());
  tracer.set_place("worker", 0, dir.path(), Log::silent());
  REQUIRE(tracer.request_next(8));
  TrainSpec spec = toy_spec("", 2);
  spec.on_nan = job::OnNan::kSkip;
  ToyRun run(spec, {.change = spoil, .tracer = &tracer});
  REQUIRE(run.run());
  REQUIRE(tracer.written() == 1);
  std::set<int64_t> numbers;
  int64_t steps = 0, left_out = 0;
  const nlohmann::json trace = parse_json(must(read_file(dir.path("trace-worker-0.json"))));
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["name"] != "step") continue;
    steps++;
    left_out += event["args"].value("left_out", 0);
    numbers.insert(event["args"]["step"].get<int64_t>());
  }
  CHECK(steps == 8);
  CHECK(left_out >= 1);
  CHECK(static_cast<int64_t>(numbers.size()) >= steps - left_out);
}

// With skip, gradients go to the store after backward instead of during it. The results must be the same.
TEST_CASE("the option --on-nan skip changes nothing if all numbers are finite", "[train]") {
  const TempDir a;
  const TempDir b;
  REQUIRE(ToyRun(toy_spec(a.path("net"), 1)).run());
  TrainSpec spec = toy_spec(b.path("net"), 1);
  spec.on_nan = job::OnNan::kSkip;
  REQUIRE(ToyRun(spec).run());
  CHECK(must(read_file(a.path("net-0001.params"))) == must(read_file(b.path("net-0001.params"))));
}

TEST_CASE("a run of a few steps is not said not to learn, whatever its loss", "[train]") {
  TrainSpec spec = toy_spec("", 2);
  spec.schedule = {.base = 1e-9};
  ToyRun idle(spec);
  REQUIRE(idle.run());
  CHECK(idle.metric(Metric::kEpochsAtChance) == 0);
  CHECK_THAT(idle.log_text(), !Catch::Contains("guess"));
}

// Two workers with two shares. Each logs its own training results; only rank 0 logs the validation results of both.
// After a stop and a resume, both continue at rank 0's position with their own sums.
TEST_CASE("workers agree on the start position and add up their validation results", "[train]") {
  const TempDir dir;
  const auto run_both = [&](TrainSpec spec, uint64_t stop_at) {
    ThreadJob job(2);
    std::vector<std::unique_ptr<ThreadJob::Member>> members;
    std::vector<std::unique_ptr<ToyRun>> runs;
    for (uint32_t rank = 0; rank < 2; rank++) {
      members.push_back(std::make_unique<ThreadJob::Member>(job, rank));
      members[rank]->stop_at = stop_at;
      runs.push_back(std::make_unique<ToyRun>(spec, ToyOptions{.rank = rank, .workers = 2}, members[rank].get()));
    }
    std::vector<std::thread> threads;
    std::vector<TrainOutcome> outcomes(2);
    for (size_t rank = 0; rank < 2; rank++) {
      threads.emplace_back([&, rank] { outcomes[rank] = *runs[rank]->run(); });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(outcomes[0].position == outcomes[1].position);
    CHECK(runs[0]->metric(Metric::kRunValidationAccuracy) == runs[1]->metric(Metric::kRunValidationAccuracy));
    return runs;
  };
  TrainSpec spec = toy_spec(dir.path("net"), 2);
  spec.log_time_to = 0.25;
  const auto whole = run_both(spec, std::numeric_limits<uint64_t>::max());
  CHECK_THAT(whole[0]->log_text(), Catch::Contains("Resizing training data to 4 batches per machine") &&
                                       Catch::Contains("Epoch[1] Train-") && Catch::Contains("Epoch[1] Validation-") &&
                                       Catch::Contains("Reached validation-accuracy"));
  CHECK_THAT(whole[1]->log_text(), Catch::Contains("Epoch[1] Train-") && !Catch::Contains("Validation") &&
                                       !Catch::Contains("Saved") && !Catch::Contains("Change learning rate") &&
                                       !Catch::Contains("Reached"));

  spec.save_prefix = dir.path("parts");
  run_both(spec, 6);
  spec.start_from = StartFrom{dir.path("parts"), std::nullopt};
  const auto rest = run_both(spec, std::numeric_limits<uint64_t>::max());
  // An epoch has 4 batches of 5; the sums of its first two batches came from the checkpoint.
  const auto is_train_line = [](const std::string& line) { return line.starts_with("Epoch[1] Train-accuracy"); };
  const auto whole_lines = whole[0]->lines();
  const auto rest_lines = rest[0]->lines();
  CHECK(*std::find_if(whole_lines.begin(), whole_lines.end(), is_train_line) ==
        *std::find_if(rest_lines.begin(), rest_lines.end(), is_train_line));
}

TEST_CASE("the monitor prints the size of every tensor of one step in some", "[train]") {
  const TempDir dir, plain;
  TrainSpec spec = toy_spec(dir.path("net"), 1);
  spec.monitor = 5;  // of 8 steps: the first and the sixth
  ToyOptions options;
  options.network = linear_network();
  options.bucket_begin = {0};
  options.keep_all = true;
  ToyRun run(spec, options);
  REQUIRE(run.run());
  std::vector<std::string> tensors;
  for (const std::string& line : run.lines()) {
    if (line.starts_with("Batch:       1 ")) tensors.push_back(line.substr(15, line.find(' ', 15) - 15));
  }
  CHECK(tensors == std::vector<std::string>{"flatten_output", "fc1_output", "softmax_output", "fc1_weight",
                                            "fc1_weight_grad", "fc1_bias", "fc1_bias_grad"});
  CHECK_THAT(run.log_text(),
             Catch::Contains("Batch:       6 fc1_output                     ") && !Catch::Contains("Batch:       2 "));
  spec = toy_spec(plain.path("net"), 1);
  options.keep_all = false;
  REQUIRE(ToyRun(spec, options).run());
  CHECK(must(read_file(dir.path("net-0001.params"))) == must(read_file(plain.path("net-0001.params"))));
}
