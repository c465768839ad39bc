#include "observe/runs/parse_log.h"

#include "base/file.h"
#include "log_table.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::observe;
using dtrain::test::must;
using dtrain::test::parse_log;
using dtrain::test::TempDir;

namespace {

// Log lines of two nodes (docs/formats.md, "Log lines").
const std::string kTwoNodes =
    "2018-01-01 10:00:05,001 Node[0] Epoch[0] Batch [0-20]\tSpeed: 1234.57 samples/sec\taccuracy=0.101562\t"
    "top_k_accuracy_5=0.498000\n"
    "2018-01-01 10:01:00,001 Node[0] Epoch[0] Train-accuracy=0.250000\n"
    "2018-01-01 10:01:00,001 Node[0] Epoch[0] Train-top_k_accuracy_5=0.500000\n"
    "2018-01-01 10:01:00,001 Node[0] Epoch[0] Time cost=12.345\n"
    "2018-01-01 10:01:00,101 Node[1] Epoch[0] Train-accuracy=0.350000\n"
    "2018-01-01 10:01:00,101 Node[1] Epoch[0] Time cost=12.645\n"
    "2018-01-01 10:01:01,001 Node[0] Saved checkpoint to \"m-0001.params\"\n"
    "2018-01-01 10:01:09,001 Node[0] Epoch[0] Validation-accuracy=0.300000\n";

}  // namespace

TEST_CASE("the example gives the documented table", "[observe]") {
  CHECK(*parse_log(kTwoNodes, ParseLogOptions{}) ==
        "| epoch | train-accuracy | val-accuracy | time |\n"
        "| --- | --- | --- | --- |\n"
        "|  1 | 0.300000 | 0.300000 | 12.5 |\n");
  CHECK(*parse_log(kTwoNodes, {.format = ParseLogOptions::Format::kNone}) ==
        "epoch\ttrain-accuracy\tval-accuracy\ttime\n"
        " 1\t0.300000\t0.300000\t12.5\n");
}

TEST_CASE("every metric name has its columns", "[observe]") {
  CHECK(*parse_log(kTwoNodes, {.metric_names = {"accuracy", "top_k_accuracy_5"}}) ==
        "| epoch | train-accuracy | train-top_k_accuracy_5 | val-accuracy | val-top_k_accuracy_5 | time |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "|  1 | 0.300000 | 0.500000 | 0.300000 | nan | 12.5 |\n");
}

TEST_CASE("metrics of different names are never averaged", "[observe]") {
  const std::string log =
      "Epoch[0] Train-Accuracy=0.304\nEpoch[0] Train-Loss=2.1\nEpoch[0] Validation-Accuracy=0.5\n"
      "Epoch[0] Validation-Loss=1.5\nEpoch[0] Time cost=1.04\n";
  CHECK(*parse_log(log, {.format = ParseLogOptions::Format::kNone}) ==
        "epoch\ttrain-accuracy\tvalid-accuracy\ttime\n 1\t0.304000\t0.500000\t1.0\n");
  CHECK(*parse_log(log, {.format = ParseLogOptions::Format::kNone, .metric_names = {"Loss"}}) ==
        "epoch\ttrain-Loss\tval-Loss\ttime\n 1\t2.100000\t1.500000\t1.0\n");
  CHECK_THAT(parse_log("Epoch[0] Train-f1=0.5\nEpoch[0] Train-rmse=2.1\n", {}).error().text(),
             Catch::Contains("the metrics f1, rmse: choose among them with --metric-names"));
  // "accuracy" is not the beginning of another name.
  CHECK(parse_log("Epoch[0] Train-accuracy=0.5\nEpoch[0] Train-accuracy_5=0.9\n", {})->find("0.500000") !=
        std::string::npos);
}

TEST_CASE("values may have an exponent", "[observe]") {
  const std::string table =
      must(parse_log("Epoch[0] Train-accuracy=1e-05\nEpoch[0] Validation-accuracy=2.5E-01\nEpoch[1] Train-accuracy=1e\n"
                     "Epoch[1] Validation-accuracy=5e+0x\n",
                     {.format = ParseLogOptions::Format::kNone}));
  CHECK(table ==
        "epoch\ttrain-accuracy\tval-accuracy\ttime\n 1\t0.000010\t0.250000\tnan\n 2\t1.000000\t5.000000\tnan\n");
}

TEST_CASE("a log without the metric's name is read by the older expressions", "[observe]") {
  const std::string log = "Epoch[0] Train-acc=0.5\nEpoch[0] Validation-acc=0.25\nEpoch[0] Time cost=1.04\n";
  CHECK(*parse_log(log, ParseLogOptions{}) ==
        "| epoch | train-accuracy | valid-accuracy | time |\n"
        "| --- | --- | --- | --- |\n"
        "|  1 | 0.500000 | 0.250000 | 1.0 |\n");
}

TEST_CASE("a metric that was asked for and that the log lacks is an error, not another metric's table", "[observe]") {
  CHECK_THAT(parse_log(kTwoNodes, {.metric_names = {"f1", "rmse"}}).error().text(),
             Catch::Contains("the log has no metric f1 or rmse at the end of an epoch"));
  // One of several that is missing is enough.
  CHECK_THAT(parse_log(kTwoNodes, {.metric_names = {"accuracy", "f1"}}).error().text(),
             Catch::Contains("the log has no metric f1 at the end"));
  CHECK_THAT(parse_log("nothing\n", {.metric_names = {"f1"}}).error().text(), Catch::Contains("no line from the end"));
}

TEST_CASE("epochs come in the order in which they appear", "[observe]") {
  const std::string log =
      "Epoch[10] Train-accuracy=0.5\nEpoch[10] Validation-accuracy=0.5\nEpoch[10] Time cost=1.0\n"
      "Epoch[9] Train-accuracy=0.4\nEpoch[9] Validation-accuracy=0.4\nEpoch[9] Time cost=2.0";
  CHECK(*parse_log(log, {.format = ParseLogOptions::Format::kNone}) ==
        "epoch\ttrain-accuracy\tval-accuracy\ttime\n"
        "11\t0.500000\t0.500000\t1.0\n"
        "10\t0.400000\t0.400000\t2.0\n");
}

// Text that must not match, and lines that could confuse the parser: words for numbers, numbers out of range, a very
// long line.
TEST_CASE("only whole expressions match", "[observe]") {
  const std::string noise =
      "Epoch[0] Batch [20]\tSpeed: 10.00 samples/sec\tTrain-accuracy=0.9\n"
      "Epoch[0] Train-accuracy=nan\n"
      "Epoch[0] Train-accuracy=-0.5\n"
      "Epoch[0] Train-accuracy=1.2.3\n"
      "Epoch[0] Train-accuracy=\n"
      "Epoch[x] Train-accuracy=0.5\n"
      "Epoch[99999999999999999999] Train-accuracy=0.5\n"
      "Epoch[0]Train-accuracy=0.5\n" +
      std::string(1000000, '=') + "\n" + std::string(1000000, '[') + "\n";
  CHECK(parse_log(noise, ParseLogOptions{}).error().code == Code::kData);
  CHECK(parse_log("", ParseLogOptions{}).error().code == Code::kData);
  CHECK(parse_log(noise + "Epoch[1] Epoch[0] Train-accuracy=0.1 x=0.5", {.format = ParseLogOptions::Format::kNone})
            ->ends_with(" 1\t0.500000\tnan\tnan\n"));
}

// A naive parser would search all '=' of the line for each "Epoch[": 100,000 x 100,000 steps.
TEST_CASE("the time for a line with many beginnings and many values is proportional to its length", "[observe]") {
  std::string line;
  for (int i = 0; i < 100'000; i++) line += "Epoch[0] Train-accuracy=";
  CHECK_FALSE(parse_log(line, ParseLogOptions{}));
  CHECK(parse_log(line + "0.5", ParseLogOptions{})->find("0.500000") != std::string::npos);
}

TEST_CASE("the largest epoch is a row", "[observe]") {
  CHECK(
      parse_log("Epoch[9223372036854775807] Train-accuracy=0.5", ParseLogOptions{})->find("| 9223372036854775808 |") !=
      std::string::npos);
}

TEST_CASE("logs are read line by line, and a long line is cut and named", "[observe]") {
  const TempDir dir;
  must(write_file_atomic(dir.path("a.log"), kTwoNodes + std::string(5 << 20, 'x') + "\nEpoch[1] Time cost=2.0\n"));
  must(write_file_atomic(dir.path("b.log"), "Epoch[2] Train-accuracy=0.5"));
  const ParsedLogs parsed = must(parse_logs({dir.path("a.log"), dir.path("b.log")}, {}));
  CHECK(parsed.table ==
        "| epoch | train-accuracy | val-accuracy | time |\n"
        "| --- | --- | --- | --- |\n"
        "|  1 | 0.300000 | 0.300000 | 12.5 |\n"
        "|  2 | nan | nan | 2.0 |\n"
        "|  3 | 0.500000 | nan | nan |\n");
  REQUIRE(parsed.notes.size() == 1);
  CHECK(parsed.notes[0] == dir.path("a.log") + ": 1 line is longer than 1 MiB and was cut; the first is line 9");
  CHECK(parse_logs({dir.path("none")}, {}).error().code == Code::kNotFound);
}

TEST_CASE("a log of too many metrics is refused", "[observe]") {
  LogTable table({});
  for (size_t i = 0; i < LogTable::kMetricsMax; i++) must(table.add(fmt::format("Epoch[0] Train-m{}=1", i)));
  must(table.add("Epoch[1] Train-m7=1"));
  CHECK(table.add("Epoch[1] Train-other=1").error().code == Code::kData);
}

TEST_CASE("a log of too many epochs is refused", "[observe]") {
  LogTable table({});
  for (size_t epoch = 0; epoch < LogTable::kEpochsMax; epoch++) {
    must(table.add(fmt::format("Epoch[{}] Time cost=1", epoch)));
  }
  CHECK(table.add("Epoch[2000000] Time cost=1").error().code == Code::kData);
}
