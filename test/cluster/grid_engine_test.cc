// Jobs on a real Grid Engine of one host (test/cluster/grid_engine).
#include <csignal>
#include <filesystem>
#include <memory>
#include <sstream>

#include "base/file.h"
#include "cluster/loopback_job.h"
#include "cluster/make_or_skip.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"
#include "support/text.h"

using namespace dtrain;
using dtrain::test::contains;
using namespace dtrain::test;

namespace {

constexpr double kSgeSeconds = 120;

class GridEngine {
 public:
  // Returns null and sets `why_not` if it cannot be started on this host.
  static std::unique_ptr<GridEngine> make(std::string& why_not) {
    std::unique_ptr<GridEngine> engine(new GridEngine);
    const Ended up =
        run({script(), "up", engine->dir_.path()}, {.deadline_s = kSgeSeconds, .directory = {}, .environment = {}});
    why_not = up.output.substr(0, up.output.find('\n'));
    if (up.code == 77) return nullptr;
    INFO(up.output);
    REQUIRE(up.code == 0);
    return engine;
  }
  ~GridEngine() { run({script(), "down", dir_.path()}); }
  GridEngine(const GridEngine&) = delete;
  GridEngine& operator=(const GridEngine&) = delete;

  // For programs that use its commands, in a directory of the test.
  [[nodiscard]] ProcessOptions options() const {
    ProcessOptions options{.deadline_s = kSgeSeconds, .directory = work_.path(), .environment = {}};
    std::istringstream lines(must(read_file(dir_.path("environment"))));
    for (std::string line; std::getline(lines, line);) options.environment.push_back(line);
    return options;
  }
  [[nodiscard]] std::string path(const std::string& name) const { return work_.path(name); }
  [[nodiscard]] Ended command(const std::vector<std::string>& words) const { return run(words, options()); }
  // Waits until no job is queued or runs.
  [[nodiscard]] bool is_quiet(double seconds) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!command({"qstat"}).output.empty()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }

 private:
  GridEngine() = default;
  static std::string script() { return std::string(std::getenv("DTRAIN_DOUBLES")) + "/../grid_engine"; }

  TempDir dir_, work_;
};

std::vector<std::string> sge_job(const std::vector<std::string>& more) {
  return command_line(dtrain_program(), "-n 2 -s 1 --run-dir run", endless_training(), more);
}

constexpr const char* kBriefTraining = "--num-epochs 1 --num-batches 5";

}  // namespace

TEST_CASE("a job is submitted to Grid Engine and followed to its end", "[sge]") {
  const auto engine = make_or_skip<GridEngine>();
  if (engine == nullptr) return;
  const Ended end = engine->command(sge_job(command_line(kBriefTraining, "--launcher sge")));
  INFO(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output, "Finished after 1 epoch"));
  CHECK(std::filesystem::exists(engine->path("run/summary.json")));
  CHECK(engine->is_quiet(kSgeSeconds));
}

TEST_CASE("a job on Grid Engine ends with a checkpoint on Ctrl-C and on qdel", "[sge]") {
  const auto engine = make_or_skip<GridEngine>();
  if (engine == nullptr) return;
  Process job(sge_job({"--launcher", "sge"}), engine->options());
  await_output(job, "Time cost=", kSgeSeconds);
  SECTION("Ctrl-C") {
    job.signal(SIGINT);
  }
  SECTION("qdel") {
    REQUIRE(engine->command({"qdel", "1"}).code == 0);
  }
  CHECK(job.wait(kSgeSeconds).code == 75);
  CHECK(checkpoint_count(engine->path("run")) > 0);
  CHECK(engine->is_quiet(kSgeSeconds));
}

TEST_CASE("what qsub refuses ends with code 3 and qsub's words", "[sge]") {
  const auto engine = make_or_skip<GridEngine>();
  if (engine == nullptr) return;
  const Ended refused = engine->command(sge_job({"--launcher", "sge", "--queue", "nowhere"}));
  CHECK(refused.code == 3);
  CHECK(contains(refused.output, "unknown queue \"nowhere\""));
  CHECK_FALSE(std::filesystem::exists(engine->path("run")));
  ProcessOptions without = engine->options();
  without.environment.emplace_back("PATH=/nonexistent");
  const Ended missing = run(sge_job({"--launcher", "sge"}), without);
  CHECK(missing.code == 3);
  CHECK(contains(missing.output, "gridengine-client"));
}

TEST_CASE("the script that is printed for qsub runs a job in the tasks of an array", "[sge]") {
  const auto engine = make_or_skip<GridEngine>();
  if (engine == nullptr) return;
  const Ended printed = engine->command(sge_job(command_line(kBriefTraining, "--launcher print=sge")));
  REQUIRE(printed.code == 0);
  must(write_file_atomic(engine->path("job.sh"), printed.output));
  const Ended end = engine->command({"qsub", "-sync", "y", "job.sh"});
  INFO(end.output);
  CHECK(end.code == 0);
  CHECK(contains(must(read_file(engine->path("sge-1.1.out"))), "Finished after 1 epoch"));
  CHECK(std::filesystem::exists(engine->path("run/summary.json")));
  CHECK(engine->is_quiet(kSgeSeconds));
}
