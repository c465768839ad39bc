// A process of a job is killed (-9) at a random moment, and the launcher starts the job again (--max-restarts). What
// must hold: the job trains to its end, and with --deterministic the result has the bits of a run without the kill.

#include <array>
#include <csignal>

#include "base/file.h"
#include "base/random.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/drawn_seeds.h"
#include "support/must.h"
#include "support/process_of_job.h"
#include "support/text.h"

using namespace dtrain;
using namespace dtrain::test;
using dtrain::test::contains;

namespace {

constexpr double kRunSeconds = 240;

constexpr std::array kKinds = {"-n 2 -s 2 --kv-store dist_sync --deterministic 1 --save-every 0.2s",
                               "-n 2 -s 2 --kv-store dist_async --save-every 0.2s",
                               "-n 2 -s 2 --kv-store dist_ssync --staleness 1", "-n 2 -s 2 --kv-store dist_gsync",
                               "-n 2 -s 0 --kv-store allreduce --deterministic 1 --save-every 0.2s"};

class Jobs {
 public:
  explicit Jobs(std::vector<std::string> kind) : kind_(std::move(kind)) {
    make_images(dir_.path("data"));
    REQUIRE(write_file_atomic(dir_.path("groups"), "#0\n#1\n"));
  }

  [[nodiscard]] std::vector<std::string> command(const std::string& run_dir,
                                                 const std::vector<std::string>& more) const {
    return command_line(dtrain_program(),
                        "--network lenet --data-dir data --seed 7 --threads 1 --lr 0.01 --num-epochs 10 --batch-size 4 "
                        "--random-crop 1 --random-mirror 1 --pad-size 2 --disp-batches 2 --run-dir",
                        dir_.path(run_dir), kind_, more);
  }
  [[nodiscard]] Ended run(const std::string& run_dir, const std::vector<std::string>& more) const {
    return test::run(command(run_dir, more), options());
  }

  // Runs the job and kills a process at a moment, both drawn from the seed.
  [[nodiscard]] Ended run_with_kill(const std::string& run_dir, uint64_t seed) const {
    RandomStream random(seed, Use::kFaults);
    Process launcher(command(run_dir, {"--max-restarts", "5"}), options());
    const bool trains = launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds);
    launcher.wait_for_output("no process prints this", 1.5 * random.uniform());
    const std::vector<std::pair<std::string, uint64_t>> all = {
        {"worker", 0}, {"worker", 1}, {"server", 0}, {"server", 1}, {"scheduler", 0}};
    const auto& [role, rank] = all[static_cast<size_t>(random.below(std::ssize(all)))];
    pid_t victim = process_of_job(dir_.path(run_dir), role, rank);
    if (victim == 0) victim = process_of_job(dir_.path(run_dir), "worker", rank);  // an all-reduce store has no servers
    const bool was_killed = victim != 0 && ::kill(victim, SIGKILL) == 0;
    Ended end = launcher.wait(kRunSeconds);
    INFO("killed " << role << " " << rank << "\n" << end.output);
    REQUIRE(trains);
    CHECK(was_killed);
    CHECK(end.code == 0);
    CHECK(contains(end.output, "dtrain: the job was restarted once\n"));
    CHECK(left_over(dir_.path(run_dir)).empty());
    return end;
  }
  [[nodiscard]] std::string weights(const std::string& run_dir) const {
    return read_file(dir_.path(run_dir) + "/lenet-0010.params").value_or("none of " + run_dir);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return dir_.path(name); }
  [[nodiscard]] ProcessOptions options() const {
    return {.deadline_s = kRunSeconds, .directory = dir_.path(), .environment = {"XDG_RUNTIME_DIR=" + dir_.path()}};
  }

 private:
  TempDir dir_;
  std::vector<std::string> kind_;
};

}  // namespace

TEST_CASE("a job whose process is killed trains to its end after a restart", "[restart]") {
  const std::string kind = kKinds[GENERATE(from_range(drawn_kinds("DTRAIN_RESTART_SEEDS", kKinds.size())))];
  INFO(kind);
  const Jobs jobs(command_line(kind.c_str()));
  const bool is_exact = contains(kind, "deterministic");
  if (is_exact) REQUIRE(jobs.run("whole", {}).code == 0);
  // By default, a job of each of these kinds is killed once. DTRAIN_RESTART_SEEDS=1-100 kills all kinds a hundred
  // times.
  const auto [first, last] = drawn_seeds("DTRAIN_RESTART_SEEDS");
  for (uint64_t seed = first; seed <= last; seed++) {
    INFO("seed " << seed);
    const std::string run_dir = "run" + std::to_string(seed);
    (void)jobs.run_with_kill(run_dir, seed);
    CHECK(jobs.weights(run_dir) != jobs.weights("none"));
    if (is_exact) CHECK((jobs.weights(run_dir) == jobs.weights("whole")));  // not printed
  }
}

TEST_CASE("a job that fails in the same step each time is not restarted for ever", "[restart]") {
  const Jobs jobs(command_line("-n 2 -s 1 --kv-store dist_sync --lr 1e6"));
  const Ended end = jobs.run("run", {"--max-restarts", "9"});
  INFO(end.output);
  CHECK(end.code == 1);
  CHECK(contains(end.output, "dtrain: the job is not started again, because it has failed in the same way 3 times"));
}

// As when the host of worker 0 is cut off from all but the shared disk: the launcher starts the job elsewhere, and the
// process that it could not stop wakes up later.
TEST_CASE("a run that stood still while another one took its place writes no checkpoint", "[restart]") {
  const Jobs jobs({});
  const std::string prefix = jobs.path("weights");
  Process first(jobs.command("first", command_line("--num-epochs 100000 --save-model-prefix", prefix)), jobs.options());
  await_output(first, "Saved checkpoint", kRunSeconds);
  first.signal(SIGSTOP);
  const std::vector<std::string> second = command_line("--num-epochs 30 --save-model-prefix", prefix);
  const Ended refused = jobs.run("second", second);
  INFO(refused.output);
  CHECK(refused.code == 2);
  CHECK(contains(refused.output, "another run, '" + jobs.path("first") + " on "));
  ProcessOptions restarted = jobs.options();
  restarted.environment.emplace_back("DTRAIN_RESTART=1");
  const Ended end = test::run(jobs.command("second", second), restarted);
  INFO(end.output);
  REQUIRE(end.code == 0);
  const std::string saved = must(read_file(jobs.path("weights-0030.params")));
  first.signal(SIGCONT);
  const Ended late = first.wait(kRunSeconds);
  INFO(late.output);
  CHECK(late.code == 2);
  CHECK(contains(late.output, "now belong to another run, '" + jobs.path("second") + " on "));
  CHECK(must(read_file(jobs.path("weights-0030.params"))) == saved);
  CHECK(must(read_file(jobs.path("weights.lock"))).starts_with("attempt 2: "));
}
