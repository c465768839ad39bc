#include "bench/kv.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "bench/kv_plan.h"
#include "job/flags/flags.h"
#include "role/setup/threads.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::bench;
using Catch::Matchers::Contains;
using dtrain::test::must;

namespace {

struct Run {
  BenchKvResult result;
  std::vector<std::string> lines;
};

// Runs the benchmark on small arrays. The peers are threads of this process.
Run run(BenchKvOptions options) {
  const dtrain::test::TempDir dir;
  must(write_file_atomic(dir.path("shapes"),
                         "# sizes that no number of devices divides\nfc1_weight 37 11\nfc1_bias 37\n"));
  options.shapes = dir.path("shapes");
  options.num_batches = 4;
  options.disp_batches = 2;
  options.processes = false;
  Run run;
  run.result = must(bench_kv(options, [&](std::string_view line) { run.lines.emplace_back(line); }));
  return run;
}

}  // namespace

// With every store the weights are those that the same updates make on one array, and MXNet's line is printed.
TEST_CASE("bench kv measures the stores of one process", "[bench]") {
  for (const char* store : {"local", "device", "nccl", "nccl_allreduce", "allreduce"}) {
    for (const char* optimizer : {"none", "sgd"}) {
      INFO(store << " " << optimizer);
      const Run bench = run({.devices = 3, .store = store, .optimizer = optimizer});
      CHECK(bench.result.within_bound());
      CHECK(bench.result.bytes == (37 * 11 + 37) * sizeof(float));
      REQUIRE(bench.lines.size() == 2);
      CHECK_THAT(bench.lines[0], Contains("iter 2, ") && Contains(" GB/sec per gpu, error 0.000000"));
      const auto json = nlohmann::json::parse(bench.result.json());
      CHECK(json["devices"] == 3);
      CHECK(json["ms"]["median"] > 0);
      CHECK_FALSE(json.contains("proto_bytes_ms"));
    }
  }
}

TEST_CASE("bench kv measures workers with servers beside unary calls", "[bench]") {
  const Run bench = run({.workers = 2, .servers = 2});
  CHECK(bench.result.within_bound());
  const auto json = nlohmann::json::parse(bench.result.json());
  CHECK(json["workers"] == 2);
  CHECK(json["proto_bytes_ms"] > 0);
  CHECK_FALSE(json.contains("devices"));
}

// Otherwise the threads of the transport would do the updates, which a training server leaves to threads of its own.
TEST_CASE("the servers of bench kv have the threads of a training job's servers", "[bench]") {
  job::Flags flags;
  flags.launch.role = job::Role::kServer;
  flags.job.num_workers = 1;
  flags.job.num_servers = 1;
  const int expected = role::shard_threads(flags, flags.job.scheme.reduce_threads);
  CHECK(expected >= 1);
  CHECK(must(make_kv_plan({.workers = 1, .servers = 1, .shapes = "lenet"})).shard_threads == expected);
  CHECK(must(make_kv_plan({.workers = 4096, .servers = 2, .shapes = "lenet"})).shard_threads == 1);
}

TEST_CASE("bench kv refuses what it cannot measure", "[bench]") {
  const auto refused = [](const BenchKvOptions& options) {
    const auto result = bench_kv(options, [](std::string_view) {});
    REQUIRE_FALSE(result);
    CHECK(result.error().code == Code::kUsage);
    return result.error().message;
  };
  CHECK_THAT(refused({.devices = 8}), Contains("leave out --cpus"));
  CHECK_THAT(refused({.store = "nccl"}), Contains("--cpus"));
  CHECK_THAT(refused({.store = "dist_device_sync"}), Contains("dist_sync"));
  CHECK_THAT(refused({.shapes = "no-such-network"}), Contains("no-such-network"));
}
