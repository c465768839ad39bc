#include "train/batch_times.h"

#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "train/members.h"
#include "train/times.h"
#include "train/toy_run.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;
using dtrain::test::must;
using dtrain::test::TempDir;

namespace {

kvstore::StoreTimes store_times(double wait_s, uint64_t sent, uint64_t received) {
  return {.wait_s = wait_s, .traffic = kvstore::Traffic{.sent = sent, .received = received}};
}

// A worker whose batches take `seconds` each, the first of `count` not counted.
BatchTimes worker_with(int count, double seconds) {
  BatchTimes times(1);
  times.begin_epoch(at(0));
  for (int i = 0; i < count; i++) {
    const double begin = i * seconds;
    times.step(at(begin + seconds), at(seconds / 4) - at(0), 8,
               store_times(0.5 * (i + 1), 100 * (static_cast<uint64_t>(i) + 1), 10 * (static_cast<uint64_t>(i) + 1)));
  }
  return times;
}

nlohmann::json shared(const BatchTimes& times, job::Coordinator& coordinator) {
  return nlohmann::json::parse(must(times.share(coordinator)).value());
}

}  // namespace

TEST_CASE("the times of the batches leave out the first ones, and end when the last weights arrive", "[train]") {
  BatchTimes times = worker_with(4, 2);
  times.end_epoch(at(9), store_times(3, 400, 50));
  Meetings meetings(1);
  Member alone(meetings, 0);
  const nlohmann::json json = shared(times, alone);
  CHECK(json["samples"] == 24);
  CHECK(json["seconds"] == Approx(7));  // 3 batches, and 1 s until the weights came
  CHECK(json["batches_ms"] == std::vector<double>{2000, 2000, 3000});
  CHECK(json["wait_data_s"] == Approx(1.5));
  CHECK(json["wait_network_s"] == Approx(2.5));
  CHECK(json["bytes_sent"] == 300);
  CHECK(json["bytes_received"] == 40);
  CHECK(json["workers"] == 1);
}

TEST_CASE("every worker learns the samples of all and the times of the slowest", "[train]") {
  Meetings meetings(2);
  std::vector<nlohmann::json> files(2);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; rank++) {
    threads.emplace_back([&, rank] {
      Member member(meetings, rank);
      files[rank] = shared(rank == 0 ? worker_with(5001, 1) : worker_with(5001, 2), member);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t rank = 0; rank < 2; rank++) {
    CHECK(files[rank]["rank"] == rank);
    CHECK(files[rank]["seconds"] == Approx(rank == 0 ? 5000 : 10000));
    CHECK(files[rank]["job_samples"] == 2 * 5000 * 8);
    CHECK(files[rank]["job_seconds"] == Approx(10000));
    CHECK(files[rank]["slowest"] == 1);
    CHECK(files[rank]["slowest_batches_ms"] == files[1]["batches_ms"]);
  }
}

TEST_CASE("a run writes the times of its batches only if they are asked for", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec("", 2);
  spec.metrics_path = dir.path("metrics.jsonl");
  REQUIRE(ToyRun(spec).run());
  CHECK_FALSE(std::filesystem::exists(dir.path("batch-times-0.json")));
  spec.time_batches_after = 3;
  ToyRun run(spec);
  REQUIRE(run.run());
  const auto json = nlohmann::json::parse(must(read_file(dir.path("batch-times-0.json"))));
  CHECK(json["samples"] == run.samples() - 3 * kToyBatch);
  CHECK(json["batches_ms"].size() == run.samples() / kToyBatch - 3);
  CHECK(json["bytes_sent"] == 0);
  CHECK(json["job_seconds"] == json["seconds"]);
}
