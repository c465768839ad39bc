// A learning rate that `dtrain set-rate` changes while a job of 2 workers and 2 servers trains.

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
  RateJobs() { make_images(dir_.path("data")); }

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
  CHECK_THAT(jobs.run(set).output, Contains("no run is training in 'run'"));
  {
    Process job = jobs.start(jobs.command("run", {"--kv-store", store, "--lr", "1e-5", "--num-epochs", "100000"}));
    const bool trains = job.wait_for_output("Epoch[1] Time", kRateJobSeconds);
    const Ended asked = jobs.run(set);
    CHECK(asked.code == 0);
    CHECK_THAT(asked.output, Contains("worker 0 will read the request at the end of the epoch"));
    stop(job, trains && job.wait_for_output("0.1 times that of the schedule (requested: x0.1)", kRateJobSeconds) &&
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
