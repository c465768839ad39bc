// What an update does when a worker of a job is killed (-9) and another one joins (--elastic-batch).

#include <fmt/core.h>

#include <csignal>
#include <sstream>
#include <utility>

#include "base/json.h"
#include "cluster/changing_job.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/text.h"

using namespace dtrain;
using namespace dtrain::test;
using dtrain::test::contains;

namespace {

// The updates of worker 0 that its metrics show in three successive windows: "8 samples at 0.01" for each part of the
// run with other updates than the part before. A window in which a worker is lost has updates of both kinds, and the
// samples are corrected after it.
std::vector<std::string> updates_in(const std::string& metrics) {
  std::vector<std::string> found;
  std::string last;
  int in_a_row = 0;
  std::istringstream lines(metrics);
  double samples = 0, step = 0;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = parse_json(line);
    if (record.at("rank") != 0 || !record.contains("lr") || record.at("step") <= step) continue;
    const double per_update = (record.at("samples").get<double>() - samples) / (record.at("step").get<double>() - step);
    samples = record.at("samples"), step = record.at("step");
    const std::string update = fmt::format("{:g} samples at {:g}", per_update, record.at("lr").get<double>());
    in_a_row = update == std::exchange(last, update) ? in_a_row + 1 : 1;
    if (in_a_row == 3 && (found.empty() || found.back() != update)) found.push_back(update);
  }
  return found;
}

}  // namespace

TEST_CASE("after the loss of a worker, an update has fewer samples, at a lower rate if wanted, or as many",
          "[shrink]") {
  struct Kind {
    std::string flags;
    std::vector<std::string> updates;
  };
  const std::vector<std::string> alike = {"8 samples at 0.01", "4 samples at 0.01", "8 samples at 0.01"};
  const std::vector<std::string> scaled = {"8 samples at 0.01", "4 samples at 0.005", "8 samples at 0.01"};
  const std::vector<std::string> kept = {"8 samples at 0.01"};
  const Kind kind = GENERATE_COPY(
      values({Kind{"--elastic-batch off --reshare now", alike}, Kind{"--elastic-batch scale", scaled},
              Kind{"--elastic-batch scale --update-on worker", scaled}, Kind{"--elastic-batch keep", kept},
              Kind{"--elastic-batch keep --update-on worker --cpus 2", kept}}));
  INFO(kind.flags);
  const ChangingJobs jobs("shrink", command_line("-n 2 --kv-store dist_sync --num-epochs 1000", kind.flags.c_str()));
  Process launcher(jobs.command("run", command_line("--inject step-ms=10,kill=worker:1@step:20")), jobs.options());
  const bool shrinks = launcher.wait_for_output("1 workers (2 before) divide", kRunSeconds);
  const bool trains = launcher.wait_for_output("Epoch[1] Batch [", kRunSeconds);
  Process joiner(command_line(dtrain_program(), "join"), jobs.options());
  const bool joins = joiner.wait_for_output("joined the job in epoch ", kRunSeconds);
  const bool ends = launcher.wait_for_output("Epoch[3] Batch [", kRunSeconds);
  launcher.signal(SIGTERM);
  const Ended end = launcher.wait(kRunSeconds), joined = joiner.wait(kRunSeconds);
  INFO(end.output << joined.output);
  REQUIRE(shrinks);
  REQUIRE(trains);
  REQUIRE(joins);
  REQUIRE(ends);
  CHECK(end.code == 75);
  CHECK(left_over(jobs.path("run")).empty());
  const bool adds_up =
      contains(end.output, "an update still has 8 samples: each worker adds up the gradients of 2 batches");
  CHECK(adds_up == (kind.updates == kept));
  CHECK(updates_in(jobs.text_of("run/metrics.jsonl")) == kind.updates);
}
