#include "telemetry/metrics_file.h"

#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <limits>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::telemetry;
using dtrain::test::must;

TEST_CASE("several processes may append to one metrics file", "[telemetry]") {
  const dtrain::test::TempDir dir;
  const auto first = must(MetricsFile::open(dir.path("m.jsonl"), "worker", 0));
  const auto second = must(MetricsFile::open(dir.path("m.jsonl"), "worker", 1));
  must(first->write({.epoch = 0, .step = 1, .values = {{Metric::kLearningRate, 0.1}}}));
  must(second->write(
      {.epoch = 0, .step = 1, .values = {{Metric::kTrainAccuracy, std::numeric_limits<double>::infinity()}}}));
  must(first->write({.epoch = std::nullopt,
                     .step = 2,
                     .values = {{Metric::kPhaseSeconds, 1.5, "forward"}, {Metric::kPhaseSeconds, 2.5, "backward"}}}));
  std::istringstream text(must(read_file(dir.path("m.jsonl"))));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0]["lr"] == 0.1);
  CHECK(lines[1]["rank"] == 1);
  CHECK(lines[1]["train_accuracy"].is_null());
  CHECK(lines[2]["step"] == 2);
  CHECK(lines[2]["epoch"].is_null());
  CHECK(lines[2]["phase_s"] == nlohmann::json{{"forward", 1.5}, {"backward", 2.5}});
  CHECK(MetricsFile::open(dir.path("no/such/dir"), "worker", 0).error().code == Code::kUsage);
}

TEST_CASE("a line that is written in part gives the cause", "[telemetry]") {
  const dtrain::test::TempDir dir;
  const auto file = must(MetricsFile::open(dir.path("m.jsonl"), "worker", 0));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 10, .rlim_max = before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  errno = ENOTTY;  // of an earlier call
  const Result<> written = file->write({.epoch = 0, .step = 1, .values = {{Metric::kLearningRate, 0.1}}});
  setrlimit(RLIMIT_FSIZE, &before);
  (void)std::signal(SIGXFSZ, handler);
  REQUIRE(!written);
  CHECK_THAT(written.error().text(), Catch::Contains("m.jsonl': File too large"));
}
