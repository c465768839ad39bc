#include "telemetry/catalogue.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include "base/file.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::telemetry;

TEST_CASE("the page of all metrics is the one in the documents", "[telemetry]") {
  const std::string path = DTRAIN_DOCS "/reference/metrics.md";
  if (std::getenv("DTRAIN_REWRITE_GOLDEN") != nullptr) REQUIRE(write_file_atomic(path, catalogue_page()));
  const Result<std::string> page = read_file(path);
  REQUIRE(page);
  CHECK(*page == catalogue_page());
}

TEST_CASE("every metric has a name of its own, here and in OpenMetrics, and a sentence", "[telemetry]") {
  std::set<std::string> names, exposed;
  for (const MetricInfo& metric : catalogue()) {
    INFO(metric.name);
    CHECK(names.insert(std::string(metric.name)).second);
    CHECK(exposed.insert(open_metrics_name(metric)).second);
    CHECK(metric.help.ends_with('.'));
    CHECK((metric.kind == Kind::kHistogram) == !metric.bounds.empty());
    CHECK(std::is_sorted(metric.bounds.begin(), metric.bounds.end()));
    CHECK(find_metric(metric.name) == metric.metric);
    CHECK(metric.on != 0);
  }
  CHECK(find_metric("speed") == std::nullopt);
}

TEST_CASE("OpenMetrics names end with the unit", "[telemetry]") {
  CHECK(open_metrics_name(info(Metric::kSeconds)) == "dtrain_seconds");
  CHECK(open_metrics_name(info(Metric::kWaitDataS)) == "dtrain_wait_data_seconds");
  CHECK(open_metrics_name(info(Metric::kDecodeMs)) == "dtrain_decode_seconds");
  CHECK(open_metrics_name(info(Metric::kSentBytes)) == "dtrain_sent_bytes");
  CHECK(open_metrics_name(info(Metric::kWaitDataShare)) == "dtrain_wait_data_ratio");
  CHECK(open_metrics_name(info(Metric::kSamplesPerS)) == "dtrain_samples_per_second");
  CHECK(open_metrics_name(info(Metric::kLearningRate)) == "dtrain_lr");
}
