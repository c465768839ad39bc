#include "role/server/server_metrics.h"

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::role;
using telemetry::Metric;

TEST_CASE("what a server writes at its end is what its registry says", "[role]") {
  telemetry::Registry registry;
  set_metrics({}, registry);
  CHECK(end_record(registry.snapshot()).values.empty());  // it made no update
  kvstore::ShardCounts counts;
  counts.staleness = {3, 0, 1};
  counts.queued = 5;
  set_metrics(counts, registry);
  CHECK(telemetry::value_of(registry.snapshot(), Metric::kQueuedUpdates) == 5);
  CHECK(telemetry::value_of(registry.snapshot(), Metric::kStalenessMean) == 1.5);
  CHECK(telemetry::value_of(registry.snapshot(), Metric::kStalenessMax) == 3);
  const telemetry::Record record = end_record(registry.snapshot());
  CHECK_FALSE(record.epoch);
  CHECK(record.step == 4);
  REQUIRE(record.values.size() == 2);
  CHECK(record.values[0].metric == Metric::kStalenessMean);
  CHECK(record.values[0].value == 1.5);
  CHECK(record.values[1].metric == Metric::kStalenessMax);
  CHECK(record.values[1].value == 3);
}
