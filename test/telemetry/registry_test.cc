#include "telemetry/registry.h"

#include <memory>
#include <thread>

#include "support/catch.h"
#include "telemetry/record.h"

using namespace dtrain;
using namespace dtrain::telemetry;

TEST_CASE("a snapshot has every series that exists, in the catalogue's order", "[telemetry]") {
  Registry registry;
  CHECK(registry.snapshot().empty());
  registry.cell(Metric::kSentBytes, "server 1").add(3);
  registry.cell(Metric::kSentBytes, "server 0").add(1);
  registry.cell(Metric::kSentBytes, "server 1").add(2);
  registry.set(Metric::kLearningRate, 0.1);
  registry.set(Metric::kLearningRate, 0.05);
  registry.histogram(Metric::kStaleness).observe(1, 2);
  registry.histogram(Metric::kStaleness).observe(3);
  registry.histogram(Metric::kStaleness).observe(1000);
  const Snapshot snapshot = registry.snapshot();
  REQUIRE(snapshot.size() == 4);
  CHECK(snapshot[0] == Sample{Metric::kLearningRate, "", 0.05, {}});
  CHECK(snapshot[1] == Sample{Metric::kSentBytes, "server 0", 1, {}});
  CHECK(snapshot[2] == Sample{Metric::kSentBytes, "server 1", 5, {}});
  CHECK(snapshot[3] == Sample{Metric::kStaleness, "", 1005, {2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1}});
  CHECK(value_of(snapshot, Metric::kSentBytes, "server 0") == 1);
  CHECK(value_of(snapshot, Metric::kSentBytes, "server 2") == std::nullopt);
}

TEST_CASE("collectors run before each snapshot until their handle is gone", "[telemetry]") {
  Registry registry;
  int calls = 0;
  {
    Registry::Handle handle = registry.collect([&](Registry& r) { r.set(Metric::kParkedPulls, ++calls); });
    const Registry::Handle moved = std::move(handle);
    CHECK(value_of(registry.snapshot(), Metric::kParkedPulls) == 1);
    CHECK(value_of(registry.snapshot(), Metric::kParkedPulls) == 2);
  }
  CHECK(value_of(registry.snapshot(), Metric::kParkedPulls) == 2);
  CHECK(calls == 2);
}

TEST_CASE("threads may write the same series while another one reads it", "[telemetry]") {
  Registry registry;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&registry] {
      for (int i = 0; i < 1000; i++) {
        registry.cell(Metric::kPushes).add(1);
        registry.histogram(Metric::kStepSeconds).observe(0.5);
      }
    });
  }
  for (int i = 0; i < 10; i++) (void)registry.snapshot();
  for (std::thread& thread : threads) thread.join();
  const Snapshot snapshot = registry.snapshot();
  CHECK(value_of(snapshot, Metric::kPushes) == 4000);
  CHECK(value_of(snapshot, Metric::kStepSeconds) == 2000);
}

TEST_CASE("a record goes to the registry and to every sink", "[telemetry]") {
  struct Keeper final : Sink {
    explicit Keeper(std::vector<Record>& to) : kept(to) {}
    Result<> write(const Record& record) override {
      kept.push_back(record);
      return {};
    }
    std::vector<Record>& kept;
  };
  Registry registry;
  Recorder recorder(registry);
  std::vector<Record> first, second;
  recorder.add(std::make_unique<Keeper>(first));
  recorder.add(std::make_unique<Keeper>(second));
  REQUIRE(recorder.write({.epoch = 2, .step = 40, .values = {{Metric::kTrainAccuracy, 0.5}}}));
  CHECK(value_of(registry.snapshot(), Metric::kEpoch) == 2);
  CHECK(value_of(registry.snapshot(), Metric::kStep) == 40);
  CHECK(value_of(registry.snapshot(), Metric::kTrainAccuracy) == 0.5);
  REQUIRE(first.size() == 1);
  REQUIRE(second.size() == 1);
  CHECK(second[0].values[0].value == 0.5);

  // The mean of an epoch is no point of the curve of the windows.
  const Value mean{.metric = Metric::kTrainAccuracy, .value = 0.25, .of_epoch = true};
  REQUIRE(recorder.write({.epoch = 3, .step = 60, .values = {mean, {Metric::kBadRecords, 7}}}));
  CHECK(value_of(registry.snapshot(), Metric::kTrainAccuracy) == 0.5);
  CHECK(value_of(registry.snapshot(), Metric::kBadRecords) == 7);
  CHECK(value_of(registry.snapshot(), Metric::kEpoch) == 3);
  REQUIRE(first.size() == 2);
  CHECK(first[1].values[0].value == 0.25);
}
