#include "plan/speed_log.h"

#include "base/file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::plan;
using Catch::Matchers::Contains;
using dtrain::test::must;
using dtrain::test::TempDir;

namespace {

Result<std::vector<double>> speeds_in(const std::string& log, int64_t workers) {
  const TempDir dir;
  must(write_file_atomic(dir.path("run.log"), log));
  return read_speeds(dir.path("run.log"), workers);
}

}  // namespace

TEST_CASE("speeds are read from the logs of every version", "[plan][plan]") {
  // MXNet 0.7 to 0.9 print one line per metric. The first window includes the warm-up.
  const std::string legacy =
      "INFO:root:start\n"
      "2016-05-12 10:11:12,345 Node[0] Epoch[0] Batch [50]\tSpeed: 1.00 samples/sec\tTrain-accuracy=0.1\n"
      "2016-05-12 10:11:12,345 Node[0] Epoch[0] Batch [50]\tSpeed: 1.00 samples/sec\tTrain-top_k_accuracy_5=0.1\n"
      "2016-05-12 10:11:13,345 Node[0] Epoch[0] Batch [100]\tSpeed: 90.00 samples/sec\tTrain-accuracy=0.1\n"
      "2016-05-12 10:11:13,345 Node[0] Epoch[0] Batch [100]\tSpeed: 90.00 samples/sec\tTrain-top_k_accuracy_5=0.1\n"
      "2016-05-12 10:11:12,345 Node[1] Epoch[0] Batch [50]\tSpeed: 2.00 samples/sec\tTrain-accuracy=0.1\n"
      "2016-05-12 10:11:13,345 Node[1] Epoch[0] Batch [100]\tSpeed: 40.00 samples/sec\tTrain-accuracy=0.1\n"
      "2016-05-12 10:11:13,345 Node[0] Epoch[1] Batch [50]\tSpeed: 100.00 samples/sec\tTrain-accuracy=0.1\n"
      "2016-05-12 10:11:14,345 Node[server 0] Speed: 7 samples/sec\n";
  CHECK(must(speeds_in(legacy, 2)) == std::vector<double>{95, 40});
  CHECK(must(speeds_in(legacy, 0)) == std::vector<double>{95, 40});
  // As a launcher prints it.
  const std::string now =
      "[worker 1 host] 2026-01-01 10:00:05,001 Node[1] Epoch[0] Batch [0-20]\tSpeed: 5.00 samples/sec\taccuracy=0.1\n"
      "[worker 1 host] 2026-01-01 10:00:05,001 Node[1] Epoch[0] Batch [20-40]\tSpeed: 12.50 samples/sec\taccuracy=0.1\n"
      "[worker 1 host] 2026-01-01 10:00:05,001 Node[1] Epoch[0] Batch [40-60]\tSpeed: 13.50 samples/sec\taccuracy=0.1\n"
      "[worker 1 host] 2026-01-01 10:00:05,001 Node[1] Epoch[0] Batch [60-80]\tSpeed: 99 samples/sec\taccuracy=0.1";
  CHECK_THAT(speeds_in(now, 2).error().text(), Contains("run.log: the speed of worker 0 of 2 is missing"));
  const TempDir dir;
  must(write_file_atomic(dir.path("worker-0.log"), legacy));
  must(write_file_atomic(dir.path("worker-1.log"), now));
  must(write_file_atomic(dir.path("server-0.log"), "Node[3] Speed: x samples/sec"));
  CHECK(must(read_speeds(dir.path("worker-0.log"), 2)) == std::vector<double>{95, 40});
  CHECK(must(read_speeds(dir.path(), 2))[0] == 95);
}

TEST_CASE("a log without a worker's speed is refused with the worker's rank", "[plan][plan]") {
  const auto error = [](const std::string& log, int64_t workers) {
    const auto speeds = speeds_in(log, workers);
    return speeds ? "" : speeds.error().text();
  };
  const auto line = [](int rank, int batch, const std::string& speed) {
    return fmt::format("Node[{}] Epoch[0] Batch [{}]\tSpeed: {} samples/sec\n", rank, batch, speed);
  };
  const std::string worker_0 = line(0, 20, "1") + line(0, 40, "10");
  CHECK_THAT(error(worker_0, 3), Contains("run.log: the speed of worker 1 of 3 is missing"));
  CHECK_THAT(error(worker_0 + line(2, 20, "1") + line(2, 40, "9"), 0),
             Contains("the speed of worker 1 of 3 is missing"));
  CHECK_THAT(error(worker_0 + line(1, 20, "1"), 2), Contains("worker 1 logged only one speed"));
  CHECK_THAT(error(worker_0 + line(1, 20, "nan"), 2), Contains("run.log:3: the speed of worker 1 is 'nan'"));
  CHECK_THAT(error(worker_0 + line(1, 20, "inf"), 2), Contains("the speed of worker 1 is 'inf'"));
  CHECK_THAT(error(line(0, 20, "-3"), 1), Contains("the speed of worker 0 is '-3'"));
  CHECK_THAT(error(worker_0 + line(5, 20, "1"), 2), Contains("the speed of worker 5, but the job has only 2 workers"));
  CHECK_THAT(error("Epoch[0] Batch [20]\tSpeed: 3 samples/sec\nNode[", 0),
             Contains("the log contains no line 'Node[RANK]"));
  const TempDir dir;
  CHECK_THAT(read_speeds(dir.path(), 1).error().text(), Contains("no logs of workers"));
  CHECK(read_speeds(dir.path("none"), 1).error().code == Code::kNotFound);
}
