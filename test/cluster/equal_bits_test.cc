// Jobs of 2 workers and 2 servers with --deterministic: the same seed gives the same bits, even if the job is stopped
// and resumed in between.

#include "base/file.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr double kJobSeconds = 120;

// Trains on JPEG images that are shuffled, cropped and mirrored, because the random streams must continue too.
struct Training {
  const TempDir& dir;

  [[nodiscard]] Ended run(const std::string& run_dir, int epochs, const std::vector<std::string>& more = {}) const {
    const std::vector<std::string> command = command_line(
        dtrain_program(),
        "-n 2 -s 2 --kv-store dist_sync --deterministic 1 --seed 7 --threads 1 --network lenet --data-dir",
        dir.path("data"), "--batch-size 16 --lr 0.01 --random-crop 1 --random-mirror 1 --pad-size 2 --num-epochs",
        std::to_string(epochs), "--run-dir", dir.path(run_dir), more);
    return test::run(command, {.deadline_s = kJobSeconds, .directory = dir.path(), .environment = {}});
  }
  [[nodiscard]] std::string weights(const std::string& run_dir, int epochs) const {
    return read_file(dir.path(run_dir) + "/lenet-000" + std::to_string(epochs) + ".params")
        .value_or("none of " + run_dir);
  }
};

}  // namespace

TEST_CASE("two jobs with one seed end with the same bits, whether servers or workers update", "[bits]") {
  const TempDir dir;
  make_images(dir.path("data"));
  const Training training{dir};
  for (const char* run_dir : {"a", "b"}) {
    const Ended end = training.run(run_dir, 2);
    INFO(end.output);
    REQUIRE(end.code == 0);
  }
  CHECK((training.weights("a", 2) == training.weights("b", 2)));
  CHECK((training.weights("a", 1) != training.weights("a", 2)));
  const Ended by_workers = training.run("c", 2, {"--update-on", "worker"});
  INFO(by_workers.output);
  REQUIRE(by_workers.code == 0);
  CHECK((training.weights("a", 2) == training.weights("c", 2)));
}

TEST_CASE("a job that was stopped and resumed ends with the bits of an uninterrupted one", "[bits]") {
  const TempDir dir;
  make_images(dir.path("data"));
  const Training training{dir};
  const Ended whole = training.run("whole", 4);
  INFO(whole.output);
  REQUIRE(whole.code == 0);
  const Ended half = training.run("parts", 2);
  REQUIRE(half.code == 0);
  const Ended rest = training.run("parts", 4, {"--resume", dir.path("parts")});
  INFO("resumed:\n" << rest.output);
  REQUIRE(rest.code == 0);
  CHECK((training.weights("whole", 4) == training.weights("parts", 4)));  // not printed
}
