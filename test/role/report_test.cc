#include "role/process/report.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "role/process/observer.h"
#include "role/process/summary.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include "train/run_metrics.h"

using namespace dtrain;
using namespace dtrain::role;
using telemetry::Metric;

namespace {

// The job of one worker with batches of 10 records.
job::JobSpec alone(int64_t epochs, int64_t batches) {
  job::JobSpec spec;
  spec.flags.scheme.kv_store = "local";
  spec.flags.batch_size = 10;
  spec.flags.num_epochs = epochs;
  spec.shares = {{0, 10 * batches}};
  spec.batches = {batches};
  return spec;
}

// A job of two workers that have these numbers of batches in an epoch.
job::JobSpec of_two(const std::string& kv_store, int64_t epochs, const std::vector<int64_t>& batches) {
  job::JobSpec spec = alone(epochs, batches[0]);
  spec.flags.scheme.kv_store = kv_store;
  spec.flags.num_workers = 2;
  spec.shares.push_back({10 * batches[0], 10 * (batches[0] + batches[1])});
  spec.batches = batches;
  return spec;
}

}  // namespace

TEST_CASE("a job's progress is the mean of the workers' progress, and its rate is their sum", "[role]") {
  const job::JobSpec spec = of_two("dist_sync", 4, {100, 100});
  job::TimeLeft left;
  const job::Progress progress = job_progress(
      spec.flags, job::plan_of(spec),
      {{.step = 150,
        .samples_per_s = 30,
        .wait_data_share = 0.5,
        .wait_network_share = 0.25,
        .data_stage = job::DataStage::kDecode},
       {.step = 151, .samples_per_s = 20, .wait_data_share = 0, .wait_network_share = 0.75, .checkpoint_s = 4}},
      left);
  CHECK(progress.step == 150);
  CHECK(progress.steps == 400);
  CHECK(progress.epoch == 1);
  CHECK(progress.samples_per_s == 50);
  CHECK(progress.wait_data == 0.25);
  CHECK(progress.wait_network == 0.5);
  CHECK(progress.data_stage == job::DataStage::kDecode);  // of the worker that waits most for data
  CHECK(progress.checkpoint_s == 4);
  CHECK(progress.eta_s == Approx((800 - 301) * 10 / 50.0));
}

// Whichever place it has among the workers.
TEST_CASE("the stage that a job waits for is that of the worker that waits most for data", "[role]") {
  job::JobSpec spec = alone(1, 10);
  spec.flags.num_workers = 3;
  std::vector<job::WorkerProgress> workers = {{.wait_data_share = 0.5, .data_stage = job::DataStage::kDecode},
                                              {.wait_data_share = 0.25, .data_stage = job::DataStage::kRead},
                                              {.wait_data_share = 0, .data_stage = job::DataStage::kNone}};
  for (size_t first = 0; first < workers.size(); first++) {
    job::TimeLeft left;
    CHECK(job_progress(spec.flags, {}, workers, left).data_stage == job::DataStage::kDecode);
    std::ranges::rotate(workers, workers.begin() + 1);
  }
}

// As under ASP, where no worker waits: the fast worker has done most of the steps.
TEST_CASE("a job's progress counts the steps of all workers", "[role]") {
  const job::JobSpec spec = of_two("dist_async", 2, {30, 10});
  job::TimeLeft left;
  const job::Progress progress =
      job_progress(spec.flags, job::plan_of(spec), {{.step = 70, .samples_per_s = 30}, {.step = 8}}, left);
  CHECK(progress.steps == 40);
  CHECK(progress.step == 39);
  CHECK(progress.epoch == 1);
  CHECK(progress.eta_s == Approx(2 * 10 / 30.0));
}

TEST_CASE("a job's progress has its totals before the first report", "[role]") {
  const job::JobSpec spec = alone(2, 3);
  job::TimeLeft left;
  const job::Progress progress = job_progress(spec.flags, job::plan_of(spec), {}, left);
  CHECK(job::format_progress(progress) == "epoch 1/2  step 0/6");
}

// People count epochs from 1. While an epoch is validated, it is still the current one.
TEST_CASE("the page's epoch is that of the last step, from 1", "[role]") {
  const auto epoch_after = [](int64_t step) {
    return job_state({.step = step, .steps = 30, .epoch = step / 10, .epochs = 3}, {}, {}).epoch;
  };
  CHECK(epoch_after(0) == 1);
  CHECK(epoch_after(9) == 1);
  CHECK(epoch_after(10) == 1);
  CHECK(epoch_after(11) == 2);
  CHECK(epoch_after(20) == 2);
  CHECK(epoch_after(30) == 3);
  CHECK(job_state({}, {}, {}).epoch == 0);  // nothing is known yet
}

// The page showed the time left at the speed of the last half second, so it jumped with each report.
TEST_CASE("one slow report hardly changes the time left of the job", "[role]") {
  const job::JobSpec spec = alone(1, 10000);
  job::TimeLeft left;
  const auto eta_s = [&](uint64_t step, double samples_per_s) {
    const std::vector<job::WorkerProgress> workers = {{.step = step, .samples_per_s = samples_per_s}};
    return job_progress(spec.flags, job::plan_of(spec), workers, left).eta_s;
  };
  eta_s(0, 1000);
  CHECK(eta_s(5000, 1000) == Approx(50));
  CHECK(eta_s(5001, 100) < 60);
}

TEST_CASE("summary.json has the documented keys", "[role]") {
  Summary summary;
  summary.job = "lenet-1";
  summary.job_hash = "12ab";
  telemetry::Registry registry;
  registry.set(Metric::kRunTrainAccuracy, 0.5);
  registry.set(Metric::kBestValidationAccuracy, std::numeric_limits<double>::quiet_NaN());
  registry.set(Metric::kPeakMemoryBytes, 9);
  registry.set(Metric::kPhaseSeconds, 1.5, "forward");
  summary.metrics = registry.snapshot();
  summary.conclusion.advice = "more servers";
  summary.exit_code = 7;
  summary.error = "label out of range";
  const auto json = nlohmann::json::parse(to_json(summary));
  for (const char* key : {"job",
                          "job_hash",
                          "build",
                          "network",
                          "store",
                          "workers",
                          "servers",
                          "devices",
                          "dtype",
                          "epochs",
                          "train_accuracy",
                          "validation_accuracy",
                          "validation_cross_entropy",
                          "best_validation_accuracy",
                          "time_to_accuracy",
                          "epochs_at_chance",
                          "samples",
                          "samples_per_s",
                          "seconds",
                          "wait_data_share",
                          "wait_network_share",
                          "phases",
                          "data_limit",
                          "decoders_busy_share",
                          "image_ms",
                          "slow",
                          "time_shares",
                          "advice",
                          "peak_rss_bytes",
                          "exit_code",
                          "error"}) {
    INFO(key);
    CHECK(json.contains(key));
  }
  CHECK(json.size() == 31);
  CHECK(json["train_accuracy"] == 0.5);
  CHECK(json["validation_accuracy"].is_null());
  CHECK(json["best_validation_accuracy"].is_null());
  CHECK(json["devices"].is_array());
  CHECK(json["data_limit"].is_null());
  CHECK(json["image_ms"].is_null());
  CHECK(json["peak_rss_bytes"]["worker 0"] == 9);
  CHECK(json["phases"]["forward"] == 1.5);
  CHECK(json["slow"] == nlohmann::json::array());
  CHECK(json["time_shares"].is_null());
  CHECK(json["advice"] == "more servers");
  CHECK(json["error"] == "label out of range");
  CHECK(json["time_to_accuracy"] == nlohmann::json::parse(R"({"train": [], "validation": []})"));
  summary.error.clear();
  CHECK(nlohmann::json::parse(to_json(summary))["error"].is_null());
}

// The metrics of windows and epochs, which have similar names, are not taken for those of the run.
TEST_CASE("the figures of summary.json are the metrics of the run", "[role]") {
  telemetry::Registry registry;
  for (const auto& [metric, value] : std::vector<std::pair<Metric, double>>{{Metric::kRunEpochs, 3},
                                                                            {Metric::kRunSamples, 1.5e10},
                                                                            {Metric::kRunSamplesPerS, 2.5},
                                                                            {Metric::kRunTrainAccuracy, 0.5},
                                                                            {Metric::kRunValidationAccuracy, 0.25},
                                                                            {Metric::kBestValidationAccuracy, 0.75},
                                                                            {Metric::kEpochsAtChance, 1},
                                                                            {Metric::kRunWaitNetworkShare, 0.125},
                                                                            {Metric::kTrainAccuracy, 0.9},
                                                                            {Metric::kWaitDataShare, 0.9},
                                                                            {Metric::kSamples, 9}}) {
    registry.set(metric, value);
  }
  train::AccuracyTimes levels(0.1);
  for (const train::TimeToAccuracy& level : levels.note(1, 1.5, 40)) {
    set_reached(registry, train::DataSet::kTraining, level);
  }
  const train::PaceTotals totals{.steps = 4, .seconds = 8, .wait_data_s = 2, .wait_network_s = 1};
  set_run_use(registry, totals,
              {.wait_share = 0.25,
               .is_limit = true,
               .stage = job::DataStage::kDecode,
               .stages = {.images = 2, .read = 1, .header = 0.5, .decode = 2},
               .decoders_busy = 0.5});
  Summary summary;
  summary.metrics = registry.snapshot();
  const auto json = nlohmann::ordered_json::parse(to_json(summary));
  CHECK(json["epochs"] == 3);
  CHECK(json["samples"].dump() == "15000000000");
  CHECK(json["samples_per_s"] == 2.5);
  CHECK(json["train_accuracy"] == 0.5);
  CHECK(json["validation_accuracy"] == 0.25);
  CHECK(json["best_validation_accuracy"] == 0.75);
  CHECK(json["epochs_at_chance"] == 1);
  CHECK(json["wait_data_share"] == 0.25);
  CHECK(json["wait_network_share"] == 0.125);
  CHECK(json["data_limit"] == "decode");
  CHECK(json["decoders_busy_share"] == 0.5);
  CHECK(json["image_ms"].dump() == R"({"read":500.0,"header":250.0,"decode":1000.0,"color":0.0,"rows":0.0})");
  const auto& reached = json["time_to_accuracy"]["train"];
  REQUIRE(reached.size() == 10);
  CHECK(reached[2].dump() == R"({"accuracy":0.30000000000000004,"seconds":1.5,"samples":40})");
  CHECK(reached[9]["accuracy"] == 1);
  CHECK(json["time_to_accuracy"]["validation"].empty());
}

// A job whose workers failed before they wrote a summary still leaves one, with the reason.
TEST_CASE("the launcher completes the summary, or writes it if there is none", "[role]") {
  const test::TempDir dir;
  job::Flags flags;
  flags.job.network.network = "lenet";
  REQUIRE(complete_summary(dir.path(), flags, {"lenet-1", 7, "error [data] no such file", {{"scheduler", 5}}}));
  auto summary = nlohmann::json::parse(*read_file(dir.path("summary.json")));
  CHECK(summary["exit_code"] == 7);
  CHECK(summary["error"] == "error [data] no such file");
  CHECK(summary["network"] == "lenet");
  CHECK(summary["peak_rss_bytes"] == nlohmann::json{{"scheduler", 5}});
  REQUIRE(complete_summary(dir.path(), flags, {"lenet-1", 0, "", {{"worker 0", 9}}}));
  summary = nlohmann::json::parse(*read_file(dir.path("summary.json")));
  CHECK(summary["exit_code"] == 0);
  CHECK(summary["peak_rss_bytes"]["worker 0"] == 9);
}

TEST_CASE("the launcher adds what the scheduler has found out", "[role]") {
  const test::TempDir dir;
  const auto complete = [&](std::vector<std::string> findings) {
    REQUIRE(complete_summary(dir.path(), {}, {.job = "a", .error = "", .peak_rss_bytes = {}, .findings = findings}));
    return nlohmann::json::parse(*read_file(dir.path("summary.json")));
  };
  observe::Slow slow{.who = "worker 3", .host = "node7", .cause = observe::Cause::kNetwork};
  slow.figures = {{"late_s", 0.16}};
  const observe::Slow other{.who = "worker 1"};
  const observe::Conclusion conclusion{.time_shares = observe::TimeShares{.compute = 0.75, .pull_wait = 0.25},
                                       .advice = "more servers"};
  const nlohmann::json summary =
      complete({observe::to_json(slow), "[not json", observe::to_json(other), observe::to_json(conclusion)});
  REQUIRE(summary["slow"].size() == 2);
  CHECK(summary["slow"][0]["process"] == "worker 3");
  CHECK(summary["slow"][0]["cause"] == "network");
  CHECK(summary["slow"][0]["late_s"] == 0.16);
  CHECK(summary["slow"][1]["process"] == "worker 1");
  CHECK(summary["advice"] == "more servers");
  CHECK(summary["time_shares"]["compute"] == 0.75);
  CHECK(complete({})["slow"].empty());  // another run in the same directory
}
