// Jobs that dmlc's tracker starts, by a double of it (test/cluster/dmlc_tracker): no process is told more than the
// tracker's variables say.
#include <filesystem>
#include <sstream>

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

constexpr double kJobSeconds = 60;
constexpr double kQuietSeconds = 15;  // in which all processes of an ended job must be gone

constexpr const char* kTraining =
    "--network mlp --image-shape 1,28,28 --benchmark 1 --seed 7 --batch-size 8 --kv-store dist_sync "
    "--lr 0.01 --save-period 1 --num-epochs 1 --num-batches 10 --deterministic --threads 1";

// The double of the tracker with 2 workers and 2 servers.
std::vector<std::string> tracker(const std::vector<std::string>& options, const std::vector<std::string>& flags) {
  const char* program = std::getenv("DTRAIN_TRACKER");
  if (program == nullptr) throw std::runtime_error("DTRAIN_TRACKER does not name the script; run this with meson test");
  return command_line(std::string(program), "-n 2 -s 2", options, dtrain_program(), kTraining, flags);
}

ProcessOptions in(const TempDir& dir, const std::vector<std::string>& more = {}) {
  ProcessOptions options{.deadline_s = kJobSeconds,
                         .directory = dir.path(),
                         .environment = {"DTRAIN_TOKEN", "DMLC_INTERFACE", "DMLC_NODE_HOST", "DMLC_NUM_ATTEMPT",
                                         "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}};
  options.environment.insert(options.environment.end(), more.begin(), more.end());
  return options;
}

// Waits until no process has this word in its command line.
bool none_left(const std::string& word, double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  const auto is_left = [&] {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string line = read_file(entry.path().string() + "/cmdline").value_or("");
      if (contains(line, word) && !contains(line, "cluster_test")) return true;
    }
    return false;
  };
  while (is_left()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::poll(nullptr, 0, 50);
  }
  return true;
}

// What dtrain's own launcher makes of the same flags.
std::string expected_weights(const TempDir& dir) {
  const Ended end = run(command_line(dtrain_program(), "-n 2 -s 2 --run-dir", dir.path("own"), kTraining), in(dir));
  INFO(end.output);
  REQUIRE(end.code == 0);
  return read_file(dir.path("own/mlp-0001.params")).value();
}

}  // namespace

// The variables of this process reach those that the tracker starts here, and so does a token.
TEST_CASE("a job of dmlc's tracker ends with the bits of one that dtrain starts", "[tracker]") {
  const TempDir dir;
  std::vector<std::string> options = {"--launcher", "local"};
  std::vector<std::string> flags = {"--run-dir", dir.path("run")};
  std::vector<std::string> environment = {"DTRAIN_TOKEN=0123456789abcdef0123456789abcdef"};
  SECTION("local, and the token is a variable") {}
  SECTION("mpi, and the token is in a file") {
    if (!std::filesystem::exists("/usr/bin/mpirun.openmpi")) {
      WARN("skipped: no /usr/bin/mpirun.openmpi");
      return;
    }
    std::filesystem::create_directories(dir.path("bin"));
    std::filesystem::create_symlink("/usr/bin/mpirun.openmpi", dir.path("bin/mpirun"));
    must(write_file_atomic(dir.path("mpi-hosts"), "127.0.0.1 slots=8\n"));
    must(write_file_atomic(dir.path("token"), "0123456789abcdef0123456789abcdef\n"));
    options = {"--launcher", "mpi", "--host-file", dir.path("mpi-hosts")};
    flags.insert(flags.end(), {"--token-file", dir.path("token")});
    environment = {"PATH=" + dir.path("bin") + ":" + std::getenv("PATH")};
  }
  const Ended end = run(tracker(options, flags), in(dir, environment));
  INFO(end.output);
  REQUIRE(end.code == 0);
  CHECK_FALSE(contains(end.output, "returned"));
  CHECK(none_left(dir.path("run"), kQuietSeconds));
  CHECK(read_file(dir.path("run/mlp-0001.params")).value() == expected_weights(dir));
}

TEST_CASE("a worker that fails under dmlc's tracker ends the job with its exit codes", "[tracker]") {
  const TempDir dir;
  const Ended end =
      run(tracker({}, {"--run-dir", dir.path("run"), "--num-batches", "1000", "--inject", "kill=worker:1@step:5"}),
          in(dir, {"DTRAIN_TOKEN=0123456789abcdef0123456789abcdef"}));
  INFO(end.output);
  CHECK_FALSE(end.timed_out);
  CHECK(none_left(dir.path("run"), kQuietSeconds));
  CHECK(contains(end.output, "tracker: worker 1 returned -9"));
  CHECK(contains(end.output, "tracker: scheduler  returned 5"));
  CHECK(contains(end.output, "worker 1 was lost"));
  CHECK(contains(read_file(dir.path("run/summary.json")).value_or(""), "\"exit_code\": 5"));
}

// The tracker names an address that other hosts reach, so loopback's rule does not apply.
TEST_CASE("without a token all processes of dmlc's tracker end at once and name the ways to give one", "[tracker]") {
  const TempDir dir;
  const Ended end = run(tracker({}, {"--run-dir", dir.path("run")}), in(dir));
  INFO(end.output);
  if (contains(end.output, "Finished after 1 epoch")) {
    WARN("skipped: this host has only loopback addresses");
    return;
  }
  CHECK(none_left(dir.path("run"), kQuietSeconds));
  for (const char* words : {"tracker: scheduler  returned 6", "--token-file", "DTRAIN_TOKEN", "--insecure"}) {
    INFO(words);
    CHECK(contains(end.output, words));
  }
}
