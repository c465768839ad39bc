// Learning rates that change while a job of 2 workers and 2 servers trains: on a plateau, and by `dtrain set-rate`.

#include "base/file.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"

using namespace dtrain;
using namespace dtrain::test;
using Catch::Matchers::Contains;

namespace {

constexpr double kRateJobSeconds = 120;

class RateJobs {
 public:
  RateJobs() { make_pictures(dir_.path("data")); }

  [[nodiscard]] std::vector<std::string> command(const std::string& run_dir,
                                                 const std::vector<std::string>& more) const {
    return command_line(dtrain_program(), "--network mlp --data-dir data --seed 7 --threads 1 -n 2 -s 2 --run-dir",
                        run_dir, "--batch-size 4", more);
  }
  [[nodiscard]] Ended run(const std::vector<std::string>& command) const {
    return test::run(command, {.deadline_s = kRateJobSeconds, .directory = dir_.path(), .environment = environment()});
  }
  [[nodiscard]] Process start(const std::vector<std::string>& command) const {
    return Process(command, {.directory = dir_.path(), .environment = environment()});
  }
  [[nodiscard]] std::string file(const std::string& name) const {
    return read_file(dir_.path(name)).value_or("none of " + name);
  }

 private:
  [[nodiscard]] std::vector<std::string> environment() const { return {"XDG_RUNTIME_DIR=" + dir_.path()}; }
  TempDir dir_;
};

}  // namespace

// At this rate the accuracy does not change, but the bits of the weights do.
TEST_CASE("a plateau lowers the rate on all servers and workers, in the same bits wherever the update runs", "[rate]") {
  const RateJobs jobs;
  const auto flags = [](const std::string& epochs, const std::vector<std::string>& more) {
    return command_line("--deterministic 1 --lr 1e-5 --lr-patience 1 --lr-patience-factor 0.5 --num-epochs", epochs,
                        more);
  };
  const auto trains = [&](const std::vector<std::string>& command) {
    const Ended end = jobs.run(command);
    INFO(end.output);
    REQUIRE(end.code == 0);
    return end.output;
  };
  const std::string output = trains(jobs.command("a", flags("4", {})));
  CHECK_THAT(output, Contains("learning rate x 0.5 after") && Contains("times that of the schedule (no validation"));
  for (const char* log : {"a/server-0.log", "a/server-1.log"}) {
    CHECK_THAT(jobs.file(log), Contains("learning rate 0.5 times that of the schedule after"));
  }
  CHECK_THAT(jobs.file("a/worker-1.log"), Contains("learning rate x 0.5 after"));
  trains(jobs.command("b", flags("4", {"--update-on", "worker"})));
  CHECK((jobs.file("a/mlp-0004.params") == jobs.file("b/mlp-0004.params")));
  trains(jobs.command("c", flags("3", {})));
  const std::string resumed = trains({dtrain_program(), "--resume", "c", "--num-epochs", "4"});
  CHECK_THAT(resumed, Contains("times that of the schedule, because the run has changed it before"));
  CHECK((jobs.file("a/mlp-0004.params") == jobs.file("c/mlp-0004.params")));
  trains(jobs.command("d", flags("4", {"--lr-patience", "4"})));
  CHECK((jobs.file("a/mlp-0004.params") != jobs.file("d/mlp-0004.params")));
}

TEST_CASE("a rate is set by hand while a job trains, and a resumed job keeps it", "[rate]") {
  const std::string store = GENERATE("dist_sync", "dist_async");
  const RateJobs jobs;
  const std::vector<std::string> set = {dtrain_program(), "set-rate", "run", "x0.1"};
  const auto stop = [](Process& process, bool trained) {
    process.signal(SIGTERM);
    const Ended end = process.wait(kRateJobSeconds);
    INFO(end.output);
    REQUIRE(trained);
    CHECK(end.code == 75);
  };
  CHECK_THAT(jobs.run(set).output, Contains("no run trains in 'run'"));
  {
    Process job = jobs.start(jobs.command("run", {"--kv-store", store, "--lr", "1e-5", "--num-epochs", "100000"}));
    const bool trains = job.wait_for_output("Epoch[1] Time", kRateJobSeconds);
    const Ended asked = jobs.run(set);
    CHECK(asked.code == 0);
    CHECK_THAT(asked.output, Contains("worker 0 will read the request at the end of the epoch"));
    stop(job, trains && job.wait_for_output("0.1 times that of the schedule (by hand: x0.1)", kRateJobSeconds) &&
                  job.wait_for_output("Change learning rate to 1.00000e-06", kRateJobSeconds));
  }
  for (const char* log : {"run/server-0.log", "run/server-1.log", "run/worker-1.log"}) {
    CHECK_THAT(jobs.file(log), Contains("0.1 times that of the schedule"));
  }
  CHECK(jobs.run(set).code == 2);
  Process again = jobs.start({dtrain_program(), "--resume", "run"});
  stop(again, again.wait_for_output("the learning rate is 0.1 times that of the schedule", kRateJobSeconds) &&
                  again.wait_for_output("Time cost", kRateJobSeconds));
}
