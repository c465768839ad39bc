// Reading run directories and logs, whole and broken ones.
#include "observe/runs/run.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/file.h"
#include "run_files.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::observe;
using Catch::Matchers::Contains;
using dtrain::test::must;
using dtrain::test::TempDir;

namespace {

std::string problems_of(const Run& run) {
  return fmt::format("{}", fmt::join(run.problems, "\n"));
}

std::string refusal(const std::string& path) {
  const Result<Run> run = read_run(path);
  return run ? "" : run.error().text();
}

const Curve& curve_of(const Run& run, const std::string& metric, bool of_epochs, int64_t rank = 0,
                      const std::string& role = "worker") {
  const Curve* curve = run.curve({metric, of_epochs, role, rank});
  INFO(metric);
  REQUIRE(curve != nullptr);
  return *curve;
}

}  // namespace

TEST_CASE("a run directory is read as a whole", "[observe]") {
  const TempDir dir;
  test::write_run(dir.path("a"));
  const Run run = must(read_run(dir.path("a") + "/"));
  CHECK(run.name == "a");
  CHECK(run.problems.empty());
  CHECK(run.settings.at("network") == "lenet");
  CHECK(run.summary_number("workers") == 2);
  const Measured first = curve_of(run, "train_accuracy", false).points()[0];
  CHECK(first.value == 0.5);
  CHECK(first.at.step == 11);
  CHECK(first.at.samples == 176);
  CHECK(first.at.seconds == 0.5);
  CHECK(first.at.epoch == 0.55);
  CHECK(curve_of(run, "validation_accuracy", true).last().value == 0.9);
  CHECK(curve_of(run, "train_top_k_accuracy_5", true).last().value == 0.99);
  CHECK(curve_of(run, "staleness_mean", false, 1, "server").last().value == 1.5);
  CHECK(run.workers_with("samples_per_s", false) == std::vector<int64_t>{0, 1});
  CHECK(run.phase_seconds.at({1, "forward"}) == 4);
  // Texts that differ in numbers only are one message.
  REQUIRE(run.messages.size() == 1);
  CHECK(run.messages[0].count == 2);
  CHECK_THAT(run.messages[0].text, Contains("skipped broken record 1"));
}

TEST_CASE("the seconds and phases of a resumed run go on", "[observe]") {
  const TempDir dir;
  test::write_run(dir.path("a"));
  std::ofstream(dir.path("a/metrics.jsonl"), std::ios::app)
      << R"({"time":1,"role":"worker","rank":0,"epoch":1,"step":31,"train_accuracy":0.9,"samples_per_s":1,"seconds":0.25,"samples":496})"
      << "\n"
      << R"({"time":1,"role":"worker","rank":0,"epoch":1,"step":40,"bad_records":0,"phase_s":{"forward":1},"seconds":0.5,"samples":640})"
      << "\n";
  const Run run = must(read_run(dir.path("a")));
  REQUIRE(run.resumptions.size() == 1);
  CHECK(curve_of(run, "train_accuracy", false).last().at.seconds == 2.25);
  CHECK(run.phase_seconds.at({0, "forward"}) == 3 + 1);
}

// Short epochs end before a line is due within them.
TEST_CASE("values of a moment are one curve, whatever the lines are about", "[observe]") {
  const TempDir dir;
  test::write_run(dir.path("a"));
  std::ofstream(dir.path("a/metrics.jsonl"), std::ios::app)
      << R"({"time":1795588784,"role":"worker","rank":0,"epoch":2,"step":50,"lr":0.05,"samples_per_s":1,"memory_bytes":5,"gpu_busy_share":{"0":0.5},"seconds":3})"
      << "\n"
      << R"({"time":1795588785,"role":"worker","rank":0,"epoch":2,"step":60,"lr":0.01,"bad_records":0,"memory_bytes":7,"gpu_busy_share":{"0":0.75},"seconds":4})"
      << "\n";
  const Run run = must(read_run(dir.path("a")));
  for (const char* metric : {"lr", "memory_bytes", "gpu_busy_share/0"}) {
    CHECK(curve_of(run, metric, false).last().at.step == 60);
    CHECK(run.curve({metric, true, "worker", 0}) == nullptr);
  }
  CHECK(curve_of(run, "memory_bytes", false).count() == 2);
  CHECK(curve_of(run, "train_accuracy", true).last().at.step == 20);
}

// A process that is killed soon after its first line has fewer seconds than the next one has at its first line.
TEST_CASE("a resumption is seen by the time at which the process began", "[observe]") {
  const TempDir dir;
  test::write_run(dir.path("a"));
  std::ofstream(dir.path("a/metrics.jsonl"), std::ios::app)
      << R"({"time":1795588790,"role":"worker","rank":0,"epoch":1,"step":31,"train_accuracy":0.9,"samples_per_s":1,"seconds":2.5,"samples":496})"
      << "\n";
  const Run run = must(read_run(dir.path("a")));
  REQUIRE(run.resumptions.size() == 1);
  CHECK(run.resumptions[0].at.seconds == 2);
  CHECK(run.resumptions[0].at.step == 31);
  CHECK(curve_of(run, "train_accuracy", false).last().at.seconds == 2 + 2.5);
}

TEST_CASE("what is missing or broken in a run directory is named", "[observe]") {
  const TempDir dir;
  test::write_run(dir.path("a"));
  must(write_file_atomic(dir.path("a/summary.json"), "{\"job\": \"a"));
  std::ofstream(dir.path("a/metrics.jsonl"), std::ios::app) << "\x01\x02\n[1]\n{\"role\":\"worker\"}\n{\"time\":17";
  std::filesystem::remove(dir.path("a/jobspec"));
  const Run run = must(read_run(dir.path("a")));
  const std::string problems = problems_of(run);
  CHECK_THAT(problems, Contains("a/jobspec: the file is missing"));
  CHECK_THAT(problems, Contains("a/summary.json: the file is not a JSON object; it may be cut short"));
  CHECK_THAT(problems, Contains("a/metrics.jsonl: 3 lines have no metrics and are skipped; the first is line 9"));
  CHECK_THAT(problems, Contains("a/metrics.jsonl: the file ends within line 12, which is skipped"));
  CHECK(curve_of(run, "train_accuracy", false).count() == 1);
  // Without metrics the curves come from the logs.
  std::filesystem::remove(dir.path("a/metrics.jsonl"));
  const Run from_logs = must(read_run(dir.path("a")));
  CHECK_THAT(problems_of(from_logs), Contains("the curves are drawn from the logs"));
  CHECK(curve_of(from_logs, "validation_accuracy", true).last().value == 0.9);
}

TEST_CASE("what is neither a run directory nor a log is refused", "[observe]") {
  const TempDir dir;
  CHECK_THAT(refusal(dir.path("none")), Contains("none: there is no such run directory or log"));
  CHECK_THAT(refusal(dir.path()), Contains("not a run directory: it has no metrics.jsonl"));
  must(write_file_atomic(dir.path("text"), "hello\n"));
  CHECK_THAT(refusal(dir.path("text")), Contains("neither a run directory nor a training log"));
  must(write_file_atomic(dir.path("empty"), ""));
  CHECK_THAT(refusal(dir.path("empty")), Contains("nor a training log"));
}

// A run directory in which every file is cut at every length is read or refused.
TEST_CASE("a run directory that is cut anywhere does no harm", "[observe]") {
  const TempDir dir;
  test::write_run(dir.path("a"));
  for (const char* name : {"metrics.jsonl", "summary.json", "jobspec", "worker-0.log"}) {
    const std::string whole = must(read_file(dir.path("a/") + name));
    for (size_t length = 0; length < whole.size(); length += 7) {
      std::ofstream(dir.path("a/") + name, std::ios::trunc) << whole.substr(0, length);
      REQUIRE(read_run(dir.path("a")));
    }
    std::ofstream(dir.path("a/") + name, std::ios::trunc) << whole;
  }
}

TEST_CASE("logs of every version become curves", "[observe]") {
  const TempDir dir;
  must(write_file_atomic(dir.path("old.log"), test::kLogOf07));
  const Run old = must(read_run(dir.path("old.log")));
  CHECK_FALSE(old.is_directory);
  CHECK(old.settings.at("batch-size") == "128");
  // One line a metric, but one speed a window. 1,000 examples are 8 batches.
  CHECK(curve_of(old, "samples_per_s", false).count() == 2);
  CHECK(curve_of(old, "train_top_k_accuracy_5", false).count() == 2);
  CHECK(curve_of(old, "validation_accuracy", true).last().value == 0.3);
  const Moment second = curve_of(old, "train_accuracy", false).points()[1].at;
  CHECK(second.step == 7);
  CHECK(second.samples == 7 * 128);
  CHECK(second.seconds == 3);
  // The rate at the start is in the arguments, the log has its changes.
  const std::vector<Measured> rates = curve_of(old, "lr", false).points();
  REQUIRE(rates.size() == 2);
  CHECK((rates[0].value == 0.05 && rates[0].at.step == 0 && rates[0].at.seconds == 0));
  CHECK((rates[1].value == 0.04 && rates[1].at.step == 8 && rates[1].at.seconds == 4));

  // Without times: from the cost of the epochs. Without examples: from the largest batch.
  must(write_file_atomic(
      dir.path("root.log"),
      "INFO:root:Epoch[0] Batch [9]\tSpeed: 10.00 samples/sec\taccuracy=0.5\n"
      "INFO:root:Epoch[0] Batch [19]\tSpeed: 10.00 samples/sec\taccuracy=0.6\n"
      "INFO:root:Epoch[0] Time cost=10.0\nINFO:root:Epoch[1] Batch [9]\tSpeed: 10.00 samples/sec\taccuracy=0.7\n"
      "INFO:root:Update[30]: Change learning rate to 1.00000e-02\n"
      "INFO:root:Epoch[1] Time cost=20.0\nINFO:root:Epoch[1] Validation-accuracy=0.8\n"));
  const Run root = must(read_run(dir.path("root.log")));
  const std::vector<Measured> points = curve_of(root, "train_accuracy", false).points();
  REQUIRE(points.size() == 3);
  CHECK(points[0].at.seconds == 5);
  CHECK(points[2].at.seconds == 20);
  CHECK(points[2].at.step == 30);
  CHECK(points[2].at.epoch == 1.5);
  CHECK(std::isnan(points[2].at.samples));
  CHECK(curve_of(root, "validation_accuracy", true).last().at.epoch == 2);
  CHECK(curve_of(root, "lr", false).last().at.seconds == 20);
}

// A million values take the memory of 2,048, and the extremes are kept.
TEST_CASE("a curve keeps its extremes in bounded memory", "[observe]") {
  Curve curve;
  CHECK(std::isnan(curve.mean()));
  CHECK(curve.points().empty());
  for (int i = 0; i < 1'000'000; i++) {
    curve.add({{.step = 1.0 * i}, i == 123'456 ? 99.0 : i == 654'321 ? -99.0 : std::sin(i)});
  }
  curve.add({{.step = 1e6}, kUnknown});
  const std::vector<Measured> points = curve.points();
  CHECK(points.size() <= 2 * Curve::kBucketsMax + 1);
  CHECK(points.size() > Curve::kBucketsMax / 2);
  CHECK(points.front().at.step < 4096);
  CHECK(points.back().at.step == 1e6);
  CHECK(curve.count() == 1'000'001);
  CHECK(curve.highest() == 99);
  CHECK(std::abs(curve.mean()) < 0.01);
  double low = 0, high = 0, before = -1;
  for (const Measured& point : points) {
    if (!std::isnan(point.value)) low = std::min(low, point.value), high = std::max(high, point.value);
    CHECK(point.at.step > before);
    before = point.at.step;
  }
  CHECK(low == -99);
  CHECK(high == 99);
}

TEST_CASE("runs of one name are told apart by their paths", "[observe]") {
  const TempDir dir;
  test::write_run(dir.path("a/run"));
  test::write_run(dir.path("b/run"));
  const std::vector<Run> runs = must(read_runs({dir.path("a/run"), dir.path("b/run")}));
  CHECK(runs[0].name == dir.path("a/run"));
  CHECK(must(read_runs({dir.path("a/run")}))[0].name == "run");
}
