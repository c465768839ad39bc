// Workers of a deterministic job are lost and replaced (--deterministic, --on-worker-loss wait). What must hold: the
// job goes back to its newest checkpoint, or to its beginning, and ends with the bits of a job in which nobody was
// lost.

#include <array>
#include <csignal>
#include <cstdlib>
#include <map>
#include <sstream>

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

constexpr std::array kKinds = {"dist_sync --save-every 0.3s --eval-batches-interval 7",
                               "allreduce -s 0 --save-every 0.3s --optimizer adam",
                               "dist_sync --update-on worker --optimizer adam",
                               "dist_sync --save-period 5 --optimizer nag",
                               "allreduce -s 0 --save-period 5 --cpus 2",
                               "dist_sync --update-on worker --save-every 0.2s --save-period 10"};

constexpr const char* kPace = "--inject step-ms=6 --max-restarts 9";

// The accuracies at the ends of the epochs, as all workers have logged them last, without the times.
std::string accuracies(const ChangingJobs& jobs, const std::string& run_dir) {
  std::map<std::string, std::string> last;
  for (uint64_t rank = 0; rank < kWorkers; rank++) {
    const std::string name = "worker-" + std::to_string(rank) + ".log";
    std::istringstream lines(jobs.text_of(run_dir + "/" + name));
    for (std::string line; std::getline(lines, line);) {
      const size_t at = line.find("Epoch["), end = line.rfind('=');
      if (at == std::string::npos || !contains(line, "-accuracy=") || contains(line, " Batch ")) continue;
      // Worker 0 logs the validations, but another one does while it leads.
      const bool validates = contains(line, "Validation-");
      last[(validates ? "" : name + " ") + line.substr(at, end - at)] = line.substr(end);
    }
  }
  std::string text;
  for (const auto& [what, value] : last) text += what + value + "\n";
  return text;
}

// How the files of the runs' last checkpoints and the logged accuracies differ; empty if they are equal.
std::string differences(const ChangingJobs& jobs, const std::string& run_dir, const std::string& wanted) {
  std::string text;
  for (const std::string file : {"/lenet-0010.params", "/lenet-0010.states"}) {
    const std::string bytes = jobs.text_of(run_dir + file);
    if (bytes.empty() || bytes != jobs.text_of(wanted + file)) text += file + "\n";
  }
  const std::string own = accuracies(jobs, run_dir), other = accuracies(jobs, wanted);
  return own == other ? text : text + own + "instead of\n" + other;
}

// Kills this worker. Returns whether the job has noticed it and has got another one.
bool kill_and_replace(Process& launcher, const ChangingJobs& jobs, const std::string& run_dir, uint64_t rank) {
  const pid_t victim = process_of_job(jobs.path(run_dir), "worker", rank);
  if (victim == 0 || ::kill(victim, SIGKILL) != 0) return false;
  const std::string name = "worker " + std::to_string(rank);
  return launcher.wait_for_output("warning: " + name + " was lost: ", kRunSeconds) &&
         launcher.wait_for_output(name + " on ", kRunSeconds);
}

}  // namespace

TEST_CASE("a deterministic job that has lost a worker ends with the bits of an undisturbed one", "[rollback]") {
  const size_t kind = GENERATE(from_range(drawn_kinds("DTRAIN_ROLLBACK_SEEDS", kKinds.size())));
  INFO(kKinds[kind]);
  const ChangingJobs jobs("wait", command_line("--deterministic --kv-store", kKinds[kind]));
  const Ended calm = jobs.run("calm", command_line(kPace));
  INFO(calm.output);
  REQUIRE(calm.code == 0);
  REQUIRE(contains(accuracies(jobs, "calm"), "Epoch[9] Validation-accuracy="));
  // By default, each of these jobs loses one worker. DTRAIN_ROLLBACK_SEEDS=1-100 runs each a hundred times.
  const auto [first, last] = drawn_seeds("DTRAIN_ROLLBACK_SEEDS");
  for (uint64_t seed = first; seed <= last; seed++) {
    INFO("seed " << seed);
    RandomStream random(seed, Use::kFaults, 100 + kind);
    const std::string run_dir = "run" + std::to_string(seed);
    Process launcher(jobs.command(run_dir, command_line(kPace)), jobs.options());
    REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
    launcher.wait_for_output("no process prints this", 1.2 * random.uniform());
    const auto lost = static_cast<uint64_t>(random.below(kWorkers));
    const bool is_replaced = kill_and_replace(launcher, jobs, run_dir, lost);
    const Ended end = launcher.wait(kRunSeconds);
    INFO("killed worker " << lost << "\n" << end.output);
    REQUIRE(is_replaced);
    CHECK(end.code == 0);
    const std::string survivor = jobs.text_of(run_dir + (lost == 2 ? "/worker-1.log" : "/worker-2.log"));
    CHECK(contains(survivor, "replaced (worker " + std::to_string(lost) + "): the run goes back from epoch "));
    const std::string different = differences(jobs, run_dir, "calm");
    CHECK(different == "");
    CHECK(left_over(jobs.path(run_dir)).empty());
  }
}

TEST_CASE("a deterministic job that loses workers again and again, the leader too, has the undisturbed bits",
          "[rollback][long]") {
  const std::string store = GENERATE("dist_sync", "allreduce -s 0");
  INFO(store);
  const ChangingJobs jobs("wait", command_line("--deterministic --save-every 0.5s --kv-store", store.c_str()));
  const Ended calm = jobs.run("calm", command_line(kPace));
  REQUIRE(calm.code == 0);
  const std::string losses = ",kill=worker:0@step:40,kill=worker:1@step:40,kill=worker:2@step:90";
  const Ended end = jobs.run("run", command_line("--max-restarts 9 --inject", "step-ms=6" + losses));
  INFO(end.output);
  CHECK(end.code == 0);
  CHECK(jobs.summary("run").at("changes").size() == 6);
  CHECK(differences(jobs, "run", "calm") == "");
}

// The others meet there, with or without a torn group, and wait for the other worker before the epoch ends.
TEST_CASE("a deterministic group that loses a worker at the end of an epoch has the undisturbed bits", "[rollback]") {
  const ChangingJobs jobs("wait", command_line("--deterministic --kv-store allreduce -s 0 --save-period 10"));
  const Ended calm = jobs.run("calm", command_line(kPace));
  REQUIRE(calm.code == 0);
  // Its messages around the first validation; the fifth tells the others that it has made all steps of the epoch.
  for (const std::string barrier : {"5", "7"}) {
    INFO("barrier " << barrier);
    const std::string run_dir = "run" + barrier;
    const Ended end =
        jobs.run(run_dir, command_line("--max-restarts 3 --inject", "step-ms=6,kill=worker:1@barrier:" + barrier));
    INFO(end.output);
    CHECK(end.code == 0);
    CHECK(jobs.changes(run_dir) == "worker 1 lost, worker 1 joined");
    CHECK(differences(jobs, run_dir, "calm") == "");
  }
}

TEST_CASE("a deterministic job that was resumed goes back to where it was resumed, and not to its beginning",
          "[rollback]") {
  const ChangingJobs jobs("wait", command_line("--kv-store dist_sync --deterministic --save-period 5"));
  REQUIRE(jobs.run("first", command_line("--num-epochs 2 --save-period 1")).code == 0);
  const auto resumed = command_line("--resume", jobs.path("first"), "--num-epochs 10 --max-restarts 9");
  REQUIRE(jobs.run("calm", resumed).code == 0);
  // Worker 0 alone has read the checkpoint.
  const Ended end = jobs.run("run", command_line(resumed, "--inject kill=worker:0@step:80"));
  INFO(end.output);
  CHECK(end.code == 0);
  CHECK(contains(jobs.text_of("run/worker-1.log"), " to epoch 3, step 0, and repeats "));
  CHECK(differences(jobs, "run", "calm") == "");
}

TEST_CASE("a job whose workers have changed since its last checkpoint does not go back", "[rollback]") {
  const ChangingJobs jobs("wait", command_line("--kv-store dist_sync --deterministic"));
  Process launcher(jobs.command("run", command_line("--num-epochs 3 --max-restarts 9 --inject step-ms=60")),
                   jobs.options());
  REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
  REQUIRE(jobs.ask({"leave", "2"}).code == 0);
  REQUIRE(kill_and_replace(launcher, jobs, "run", 1));
  const Ended end = launcher.wait(kRunSeconds);
  INFO(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output, "the run does not go back, so it will not have the bits of one without a lost worker"));
  CHECK(jobs.changes("run") == "worker 2 left, worker 1 lost, worker 1 joined");
}

TEST_CASE("a deterministic job that is stopped while it waits for a worker can be resumed with the same bits",
          "[rollback]") {
  const ChangingJobs jobs("wait", command_line("--kv-store dist_sync --deterministic"));
  REQUIRE(jobs.run("calm", command_line(kPace)).code == 0);
  // Without a launcher's replacement, the others wait.
  Process launcher(jobs.command("run", command_line("--inject kill=worker:1@step:80,step-ms=6")), jobs.options());
  REQUIRE(launcher.wait_for_output("warning: worker 1 was lost: ", kRunSeconds));
  launcher.signal(SIGTERM);
  const Ended stopped = launcher.wait(kRunSeconds);
  INFO(stopped.output);
  CHECK(stopped.code == 75);
  CHECK(contains(stopped.output, "no checkpoint is written here, because a lost worker was not replaced yet"));
  const Ended resumed = jobs.run("run", command_line("--resume", jobs.path("run")));
  INFO(resumed.output);
  CHECK(resumed.code == 0);
  CHECK(differences(jobs, "run", "calm") == "");
}
