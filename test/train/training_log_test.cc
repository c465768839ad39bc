// MXNet's log parser can read what the trainer logs, in both formats (docs/formats.md, "Log lines").
#include <sstream>

#include "observe/log_table.h"
#include "support/catch.h"
#include "train/toy_run.h"

using namespace dtrain;
using namespace dtrain::observe;
using namespace dtrain::train;
using namespace dtrain::train::test;
using dtrain::test::parse_log;

namespace {

std::string log_of(job::LogFormat format) {
  TrainSpec spec = toy_spec("", 3);
  spec.log_format = format;
  spec.metrics = {.top_k = {2}, .losses = {"ce"}};
  ToyRun run(spec);
  must(run.run());
  return run.log_text();
}

// The numbers in the table's row of `epoch`; the table numbers epochs from 1.
std::vector<double> row_of(const std::string& table, int64_t epoch) {
  std::istringstream lines(table);
  std::string line;
  for (int64_t i = 0; i <= epoch; i++) std::getline(lines, line);
  std::istringstream numbers(line);
  std::vector<double> values;
  for (double value = 0; numbers >> value;) values.push_back(value);
  return values;
}

// The value after `name` in the log's line of epoch 2.
double logged(const std::string& log, const std::string& name) {
  const size_t at = log.find("Epoch[2] " + name + "=");
  REQUIRE(at != std::string::npos);
  return std::stod(log.substr(log.find('=', at) + 1));
}

}  // namespace

TEST_CASE("the log of a training is read in both forms", "[train]") {
  for (const job::LogFormat format : {job::LogFormat::kNew, job::LogFormat::kLegacy}) {
    const std::string log = log_of(format);
    const std::vector<std::string> metrics = {"accuracy", "top_k_accuracy_2", "cross-entropy"};
    const ParseLogOptions options{.format = ParseLogOptions::Format::kNone, .metric_names = metrics};

    const std::vector<double> row = row_of(must(parse_log(log, options)), 3);
    REQUIRE(row.size() == 8);
    CHECK(row[0] == 3);
    for (size_t i = 0; i < metrics.size(); i++) {
      CHECK(row[1 + i] == logged(log, "Train-" + metrics[i]));
      CHECK(row[4 + i] == logged(log, "Validation-" + metrics[i]));
    }
  }
}
