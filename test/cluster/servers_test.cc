// Servers of a job are killed while it trains, and the launcher starts others in their place (--snapshot-every). What
// must hold: the workers and the other servers keep their processes, and a deterministic job ends with the bits of one
// in which nothing was lost.

#include <array>
#include <csignal>

#include "base/random.h"
#include "cluster/changing_job.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/drawn_seeds.h"
#include "support/process_of_job.h"
#include "support/text.h"

using namespace dtrain;
using namespace dtrain::test;
using dtrain::test::contains;

namespace {

constexpr const char* kSnapshots = "--threads 1 --snapshot-every 7 --max-restarts 9";

bool have_same_bits(const ChangingJobs& jobs, const std::string& one, const std::string& other) {
  for (const char* file : {"/lenet-0009.params", "/lenet-0010.params", "/lenet-0010.states"}) {
    const std::string bytes = jobs.text_of(one + file);
    if (bytes.empty() || bytes != jobs.text_of(other + file)) return false;
  }
  return true;
}

}  // namespace

namespace {

// Kills one server or both, at a moment that is drawn.
void kill_servers(const std::string& run_dir, RandomStream& random, Process& launcher) {
  launcher.wait_for_output("no process prints this", 0.8 * random.uniform());
  const int64_t both = random.below(4);
  for (int64_t server = 0; server < 2; server++) {
    if (both != 0 && server != both % 2) continue;
    const pid_t victim = process_of_job(run_dir, "server", static_cast<uint64_t>(server));
    REQUIRE(victim != 0);
    REQUIRE(::kill(victim, SIGKILL) == 0);
  }
}

// Runs a job that loses servers twice, and trains to its end with the workers that it began with. `outcome`: what the
// log says each time.
void run_with_losses(const ChangingJobs& jobs, const std::string& run_dir, uint64_t seed, const std::string& outcome) {
  RandomStream random(seed, Use::kFaults, 300);
  Process launcher(jobs.command(run_dir, command_line(kSnapshots, "--inject step-ms=20")), jobs.options());
  REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
  const std::map<std::string, pid_t> before = jobs.survivors(run_dir, kWorkers);
  for (int times = 0; times < 2; times++) {
    kill_servers(jobs.path(run_dir), random, launcher);
    REQUIRE(launcher.wait_for_output("a lost server was replaced: the run " + outcome, kRunSeconds));
  }
  std::map<std::string, pid_t> after = jobs.survivors(run_dir, kWorkers);
  const Ended end = launcher.wait(kRunSeconds);
  INFO(end.output);
  CHECK(end.code == 0);
  for (const auto& [name, pid] : before) {
    if (contains(name, "worker")) CHECK(after[name] == pid);
  }
  CHECK(contains(jobs.changes(run_dir), "server "));
  CHECK(left_over(jobs.path(run_dir)).empty());
}

}  // namespace

TEST_CASE("a deterministic job that loses servers at drawn moments ends with the undisturbed bits", "[servers]") {
  const std::string kind = GENERATE("", "--cpus 2");
  const ChangingJobs jobs("fail", command_line("--kv-store dist_sync --deterministic 1", kind.c_str()));
  REQUIRE(jobs.run("calm", command_line(kSnapshots)).code == 0);
  const auto [first, last] = drawn_seeds("DTRAIN_SERVER_SEEDS", {1, 1});
  for (uint64_t seed = first; seed <= last; seed++) {
    INFO("seed " << seed);
    const std::string run_dir = "run" + std::to_string(seed);
    run_with_losses(jobs, run_dir, seed, "goes back from epoch ");
    CHECK(have_same_bits(jobs, run_dir, "calm"));
  }
}

TEST_CASE("jobs whose workers have different weights continue with another server", "[servers]") {
  const std::string kind = GENERATE("dist_async", "dist_ssync --staleness 2", "dist_gsync --groups-file groups",
                                    "dist_sync --backup 1", "dist_async --cpus 2");
  INFO(kind);
  const ChangingJobs jobs("fail", command_line("--kv-store", kind.c_str(), "--trace-events events"));
  const auto [first, last] = drawn_seeds("DTRAIN_SERVER_SEEDS", {1, 1});
  for (uint64_t seed = first; seed <= last; seed++) {
    INFO("seed " << seed);
    run_with_losses(jobs, "run" + std::to_string(seed), seed, "continues in epoch ");
    for (const std::string server : {"0", "1"}) {
      const Ended replayed = jobs.ask(command_line("simulate --replay", jobs.path("events." + server)));
      INFO(replayed.output);
      CHECK(replayed.code == 0);
    }
  }
}

TEST_CASE("a worker and a server are lost at the same time, and both are replaced", "[servers]") {
  const ChangingJobs jobs("wait", command_line("--kv-store dist_sync"));
  const Ended end =
      jobs.run("run", command_line(kSnapshots, "--inject step-ms=20,kill=server:0@step:25,kill=worker:1@step:25"));
  INFO(end.output);
  CHECK(end.code == 0);
  CHECK(contains(jobs.changes("run"), "server 0 joined"));
  CHECK(contains(jobs.changes("run"), "worker 1 joined"));
  CHECK(left_over(jobs.path("run")).empty());
}

TEST_CASE("a job whose lost server nobody replaces ends in time and says so", "[servers]") {
  const ChangingJobs jobs("fail", command_line("--kv-store dist_sync --snapshot-every 7 --rejoin-timeout 2"));
  const Ended end = jobs.run("run", command_line("--inject kill=server:1@step:25"));
  INFO(end.output);
  CHECK(end.code == 5);
  CHECK(contains(end.output, "no other server has taken its place within 2 s (--rejoin-timeout)"));
  CHECK(left_over(jobs.path("run")).empty());
}
