// The scheduler of a job is killed or stands still while the job trains, and the launcher starts it again
// (--state-dir). What must hold: the job continues with the same workers and servers, and ends as if nothing had
// happened.

#include <array>
#include <csignal>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/random.h"
#include "cluster/changing_job.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/drawn_seeds.h"
#include "support/forwarder.h"
#include "support/process_of_job.h"
#include "support/temp_dir.h"
#include "support/text.h"

using namespace dtrain;
using namespace dtrain::test;
using dtrain::test::contains;

namespace {

constexpr std::array kKinds = {"dist_sync --deterministic", "dist_async", "allreduce -s 0 --deterministic"};

constexpr const char* kPace = "--inject step-ms=30 --max-restarts 9";

std::vector<std::string> keeping(const ChangingJobs& jobs) {
  return command_line(kPace, "--state-dir", jobs.path("state-dir"));
}

// Kills the scheduler for the n-th time. Returns whether there was one.
bool kill_scheduler(const ChangingJobs& jobs, const std::string& run_dir) {
  const pid_t victim = process_of_job(jobs.path(run_dir), "scheduler", 0);
  return victim != 0 && ::kill(victim, SIGKILL) == 0;
}
bool comes_back(Process& launcher, int times) {
  return launcher.wait_for_output("this scheduler continues the job (term " + std::to_string(times + 1) + ")",
                                  kRunSeconds);
}
void pause(Process& launcher, double seconds) {
  launcher.wait_for_output("no process prints this", seconds);  // only makes the moment of a kill random
}

bool has_same_weights(const ChangingJobs& jobs, const std::string& one, const std::string& other) {
  const std::string bytes = jobs.text_of(one + "/lenet-0010.params");
  return !bytes.empty() && bytes == jobs.text_of(other + "/lenet-0010.params");
}

}  // namespace

TEST_CASE("a job whose scheduler is killed three times ends well with the same processes", "[scheduler]") {
  const std::string kind = kKinds[GENERATE(from_range(drawn_kinds("DTRAIN_SCHEDULER_SEEDS", kKinds.size())))];
  INFO(kind);
  const ChangingJobs jobs("fail", command_line("--kv-store", kind.c_str()));
  const bool is_deterministic = contains(kind, "--deterministic");
  if (is_deterministic) REQUIRE(jobs.run("calm", command_line("--threads 1")).code == 0);
  const auto [first, last] = drawn_seeds("DTRAIN_SCHEDULER_SEEDS");
  for (uint64_t seed = first; seed <= last; seed++) {
    INFO("seed " << seed);
    RandomStream random(seed, Use::kFaults, 200);
    const std::string run_dir = "run" + std::to_string(seed);
    Process launcher(jobs.command(run_dir, keeping(jobs)), jobs.options());
    REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
    const auto before = jobs.survivors(run_dir, kWorkers);
    bool is_back = true;
    for (int times = 1; times <= 3 && is_back; times++) {
      pause(launcher, 0.3 * random.uniform());
      is_back = kill_scheduler(jobs, run_dir) && comes_back(launcher, times);
    }
    const auto after = jobs.survivors(run_dir, kWorkers);
    const Ended end = launcher.wait(kRunSeconds);
    INFO(end.output);
    REQUIRE(is_back);
    CHECK(end.code == 0);
    CHECK(before == after);
    if (is_deterministic) CHECK(has_same_weights(jobs, run_dir, "calm"));
    CHECK(jobs.summary(run_dir).value("changes", nlohmann::json::array()).empty());
    CHECK_FALSE(std::filesystem::exists(jobs.path("state-dir/scheduler.state")));
    CHECK(left_over(jobs.path(run_dir)).empty());
  }
}

TEST_CASE("a job whose scheduler is killed at a border gets another worker in the place of a lost one", "[scheduler]") {
  const std::string kind = GENERATE("dist_sync", "dist_async", "allreduce -s 0");
  INFO(kind);
  const ChangingJobs jobs("wait", command_line("--kv-store", kind.c_str()));
  const auto [first, last] = drawn_seeds("DTRAIN_SCHEDULER_SEEDS");
  for (uint64_t seed = first; seed <= last; seed++) {
    INFO("seed " << seed);
    RandomStream random(seed, Use::kFaults, 201);
    const std::string run_dir = "run" + std::to_string(seed);
    Process launcher(jobs.command(run_dir, keeping(jobs)), jobs.options());
    REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
    const pid_t victim = process_of_job(jobs.path(run_dir), "worker", 1);
    REQUIRE(victim != 0);
    ::kill(victim, SIGKILL);
    pause(launcher, 2 * random.uniform());  // before the loss is known, while another worker starts, or while it joins
    const bool is_back = kill_scheduler(jobs, run_dir) && comes_back(launcher, 1);
    const Ended end = launcher.wait(kRunSeconds);
    INFO(end.output);
    REQUIRE(is_back);
    CHECK(end.code == 0);
    CHECK(contains(end.output, "worker 1 on "));  // it has joined
    CHECK(left_over(jobs.path(run_dir)).empty());
  }
}

TEST_CASE("a worker joins although the scheduler is killed meanwhile", "[scheduler]") {
  const ChangingJobs jobs("shrink", command_line("--kv-store dist_sync --max-workers 4 --num-epochs 20"));
  RandomStream random(drawn_seeds("DTRAIN_SCHEDULER_SEEDS").first, Use::kFaults, 202);
  Process launcher(jobs.command("run", keeping(jobs)), jobs.options());
  REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
  Process joining(command_line(dtrain_program(), "join"), jobs.options());
  REQUIRE(launcher.wait_for_output("join role=worker rank=any", kRunSeconds));
  pause(launcher, 0.5 * random.uniform());
  const bool is_back = kill_scheduler(jobs, "run") && comes_back(launcher, 1);
  const Ended joined = joining.wait(kRunSeconds), end = launcher.wait(kRunSeconds);
  INFO(end.output << "\n" << joined.output);
  REQUIRE(is_back);
  CHECK(end.code == 0);
  CHECK(joined.code == 0);
  CHECK(contains(end.output, "worker 3 on "));
}

TEST_CASE("a job whose scheduler has come back stops on request, and one that loses it too often starts again",
          "[scheduler]") {
  const ChangingJobs jobs("fail", command_line("--kv-store dist_sync --num-epochs 500"));
  const bool is_stopped = GENERATE(true, false);
  const auto flags =
      command_line("--inject step-ms=30 --scheduler-grace 2s --max-restarts 1 --state-dir", jobs.path("state-dir"));
  Process launcher(jobs.command("run", flags), jobs.options());
  REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
  REQUIRE(kill_scheduler(jobs, "run"));
  REQUIRE(comes_back(launcher, 1));
  if (!is_stopped) {
    REQUIRE(kill_scheduler(jobs, "run"));
    REQUIRE(launcher.wait_for_output("restart 1 of 1: all processes start again", kRunSeconds));
  }
  launcher.signal(SIGTERM);
  const Ended end = launcher.wait(kRunSeconds);
  INFO(end.output);
  CHECK(end.code == 75);
  CHECK(left_over(jobs.path("run")).empty());
}

TEST_CASE("a job continues when its scheduler has stood still", "[scheduler][long]") {
  const ChangingJobs jobs("fail", command_line("--kv-store dist_sync"));
  const auto [first, last] = drawn_seeds("DTRAIN_SCHEDULER_SEEDS");
  for (uint64_t seed = first; seed <= last; seed++) {
    INFO("seed " << seed);
    RandomStream random(seed, Use::kFaults, 203);
    const std::string run_dir = "run" + std::to_string(seed);
    Process launcher(jobs.command(run_dir, keeping(jobs)), jobs.options());
    REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
    const auto before = jobs.survivors(run_dir, kWorkers);
    const pid_t scheduler = process_of_job(jobs.path(run_dir), "scheduler", 0);
    REQUIRE(scheduler != 0);
    ::kill(scheduler, SIGSTOP);
    pause(launcher, 3 + 17 * random.uniform());  // --heartbeat-timeout is 3 s, --scheduler-grace 30 s
    ::kill(scheduler, SIGCONT);
    const bool trains = launcher.wait_for_output("Epoch[2] Batch [", kRunSeconds);
    const auto after = jobs.survivors(run_dir, kWorkers);
    const Ended end = launcher.wait(kRunSeconds);
    INFO(end.output);
    CHECK(trains);
    CHECK(end.code == 0);
    CHECK(before == after);
    CHECK_FALSE(contains(end.output, "this scheduler continues the job"));
  }
}

// As if the scheduler's host was suspended, and another host had taken its address and directory: the old scheduler
// keeps its connections, and its lock says nothing.
TEST_CASE("an old scheduler that wakes up ends itself, and the job continues with the new one", "[scheduler]") {
  const TempDir state;
  LoopbackJob job({.flags = command_line("--network lenet --benchmark 1 --num-batches 20 --image-shape 1,28,28 "
                                         "--num-classes 10 --batch-size 8 --num-epochs 60 --seed 1 --threads 1 "
                                         "--kv-store dist_sync --heartbeat-interval 1 --heartbeat-timeout 3 "
                                         "--inject step-ms=20"),
                   .scheduler_flags = command_line("--state-dir", state.path()),
                   .start_all = false});
  Process& old = *job.member("scheduler").process;
  Forwarder to_scheduler("127.0.0.1", 0, port_of(job.address()));
  const auto address = command_line("--scheduler", "127.0.0.1:" + std::to_string(to_scheduler.port()));
  for (int i = 0; i < 2; i++) job.start("server", i, address);
  for (int i = 0; i < 2; i++) job.start("worker", i, address);
  REQUIRE(job.await_step(5, kRunSeconds));

  old.signal(SIGSTOP);
  std::filesystem::remove(state.path("scheduler.lock"));
  LoopbackJob::Member& newer =
      job.start("scheduler", 0, command_line("--state-dir", state.path()), "", {"DTRAIN_RETURNS=1"});
  await_output(*newer.process, "dtrain scheduler ", kRunSeconds);
  to_scheduler.redirect(port_of(address_in(newer.process->output())));
  await_output(*newer.process, "live ", kRunSeconds);

  newer.process->signal(SIGSTOP);
  to_scheduler.redirect(port_of(job.address()));
  old.signal(SIGCONT);
  const Ended replaced = old.wait(kRunSeconds);
  to_scheduler.redirect(port_of(address_in(newer.process->output())));
  newer.process->signal(SIGCONT);
  INFO(replaced.output);
  CHECK(replaced.code == 4);
  CHECK(contains(replaced.output, "another scheduler continues this job"));
  CHECK(std::filesystem::exists(state.path("scheduler.state")));

  const bool all_ended = job.await_end(kRunSeconds);
  INFO(job.output());
  CHECK(all_ended);
  CHECK(job.codes("worker") == "0");
  CHECK(job.codes("server") == "0");
  CHECK(newer.ended->code == 0);
  CHECK_FALSE(std::filesystem::exists(state.path("scheduler.state")));
}

TEST_CASE("a state directory that is of no use is refused with the reason", "[scheduler]") {
  const ChangingJobs jobs("fail", command_line("--kv-store dist_sync --num-epochs 500"));
  const std::string file = jobs.path("state-dir/scheduler.state");
  std::string bytes;
  {
    Process launcher(jobs.command("first", keeping(jobs)), jobs.options());
    REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
    const Ended second = jobs.run("second", keeping(jobs));
    INFO(second.output);
    CHECK(second.code == 2);
    CHECK(contains(second.output, "another scheduler uses this directory; give each job a directory of its own"));
    bytes = read_file(file).value();
    launcher.signal(SIGTERM);
    CHECK(launcher.wait(kRunSeconds).code == 75);
  }
  REQUIRE(write_file_atomic(file, bytes));
  const Ended foreign = jobs.run("second", keeping(jobs));
  INFO(foreign.output);
  CHECK(foreign.code == 2);
  CHECK(contains(foreign.output, "belongs to the job in '" + jobs.path("first") + "', which has not ended"));

  bytes[bytes.size() / 2] ^= 1;
  REQUIRE(write_file_atomic(file, bytes));
  const Ended damaged = jobs.run("second", keeping(jobs));
  INFO(damaged.output);
  CHECK(damaged.code == 7);
  CHECK(contains(damaged.output, "scheduler.state' is damaged at byte "));
  CHECK(left_over(jobs.path("second")).empty());
}

// Without a scheduler, `dtrain join` would not even learn which job it joins.
TEST_CASE("a worker that is to join waits for a scheduler that is away", "[scheduler]") {
  const ChangingJobs jobs("shrink", command_line("--kv-store dist_sync --max-workers 4 --num-epochs 20"));
  Process launcher(jobs.command("run", keeping(jobs)), jobs.options());
  REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
  const pid_t scheduler = process_of_job(jobs.path("run"), "scheduler", 0);
  REQUIRE(scheduler != 0);
  ::kill(scheduler, SIGSTOP);
  Process joining(command_line(dtrain_program(), "join"), jobs.options());
  const bool waits = joining.wait_for_output("waiting for the scheduler at 127.0.0.1:", kRunSeconds);
  ::kill(scheduler, SIGCONT);
  const Ended joined = joining.wait(kRunSeconds), end = launcher.wait(kRunSeconds);
  INFO(end.output << "\n" << joined.output);
  CHECK(waits);
  CHECK(end.code == 0);
  CHECK(joined.code == 0);
  CHECK(contains(end.output, "worker 3 on "));
}
