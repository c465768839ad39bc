// One whole job of real processes, small enough to run with a program that was built with a sanitizer.

#include "base/file.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"
#include "support/text.h"

using namespace dtrain;
using dtrain::test::contains;
using namespace dtrain::test;

namespace {

constexpr double kJobSeconds = 400;  // under ThreadSanitizer on a busy host

}  // namespace

// If a sanitizer finds an error, its process exits with a code of its own, and so the job fails.
TEST_CASE("a launcher, a scheduler, a server and a worker train lenet, and --resume continues", "[one-job]") {
  const TempDir dir;
  const ProcessOptions options{.deadline_s = kJobSeconds, .directory = dir.path(), .environment = {}};
  const Ended made =
      run({dtrain_program(), "data", "synth", "--out", dir.path("data"), "--count", "60", "--size", "28"}, options);
  INFO(made.output);
  REQUIRE(made.code == 0);
  const std::vector<std::string> train =
      command_line(dtrain_program(), "-n 1 -s 1 --network lenet --image-shape 3,28,28 --data-dir", dir.path("data"),
                   "--batch-size 20 --lr 0.01 --threads 1 --kv-store dist_sync --run-dir run "
                   "--start-timeout 120 --heartbeat-timeout 60");
  const auto train_to_epoch = [&](const std::string& epochs, const std::vector<std::string>& more) {
    const Ended end = run(command_line(train, "--num-epochs", epochs, more), options);
    INFO(end.output);
    CHECK(end.code == 0);
    CHECK_FALSE(contains(end.output, "Sanitizer"));
    CHECK(contains(end.output, "Validation-accuracy="));
  };
  train_to_epoch("1", {});
  train_to_epoch("2", {"--resume", "run"});
  CHECK(checkpoint_count(dir.path("run")) == 3);  // two epochs, and the best
  CHECK(broken_files(dir.path("run")).empty());
}
