// Workers join a running job: in the place of a lost one (--on-worker-loss wait; faults_test.cc draws the moments), or
// in addition (--max-workers). What must hold: no other process ends or starts again, the job trains to its end, and
// one that cannot join does not disturb it.

#include <array>
#include <csignal>
#include <memory>

#include "base/file.h"
#include "base/random.h"
#include "cluster/changing_job.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/process_of_job.h"
#include "support/text.h"

using namespace dtrain;
using namespace dtrain::test;
using dtrain::test::contains;

namespace {

// Waits until the text has been printed so many times; false if the job ends before.
bool await_text(Process& launcher, const std::string& text, size_t wanted) {
  const auto printed = [&] {
    size_t count = 0;
    for (size_t at = 0; (at = launcher.output().find(text, at)) != std::string::npos; at++) count++;
    return count;
  };
  while (printed() < wanted && launcher.running()) launcher.wait_for_output("no process prints this", 0.05);
  return printed() >= wanted;
}

}  // namespace

TEST_CASE("a worker that stood still joins again without starting again, but not for ever", "[join]") {
  struct Kind {
    const char *policy, *store;
    uint64_t victim;
    int times;  // how often it stands still
  };
  const Kind kind = GENERATE(Kind{"shrink", "dist_sync --save-every 0.3s", 0, 3}, Kind{"wait", "dist_ssync", 1, 1},
                             Kind{"wait", "allreduce -s 0 --save-every 0.3s", 2, 1});
  INFO(kind.policy << " " << kind.store);
  const ChangingJobs jobs(kind.policy, command_line("--kv-store", kind.store));
  Process launcher(jobs.command("run", command_line("--num-epochs 100000 --inject step-ms=5")), jobs.options());
  REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
  const std::map<std::string, pid_t> before = jobs.survivors("run", kind.victim);
  const pid_t victim = process_of_job(jobs.path("run"), "worker", kind.victim);
  const std::string name = "worker " + std::to_string(kind.victim);
  std::string changes;
  for (int time = 1; time <= kind.times; time++) {
    INFO("time " << time);
    REQUIRE(::kill(victim, SIGSTOP) == 0);
    const bool is_noticed = await_text(launcher, "warning: " + name + " was lost: ", static_cast<size_t>(time));
    ::kill(victim, SIGCONT);
    INFO(launcher.output());
    REQUIRE(is_noticed);
    changes += (changes.empty() ? "" : ", ") + name + " lost";
    if (time == 3) break;
    REQUIRE(await_text(launcher, " has joined the job", static_cast<size_t>(time)));
    changes += ", " + name + " joined";
    CHECK(process_of_job(jobs.path("run"), "worker", kind.victim) == victim);
  }
  if (kind.times == 3) REQUIRE(launcher.wait_for_output(name + " ended with code 5", kRunSeconds));
  CHECK(before == jobs.survivors("run", kind.victim));
  launcher.signal(SIGTERM);
  const Ended end = launcher.wait(kRunSeconds);
  INFO(end.output);
  CHECK(end.code == 75);
  CHECK(jobs.changes("run") == changes);
  CHECK(left_over(jobs.path("run")).empty());
  const std::string log = jobs.text_of("run/worker-" + std::to_string(kind.victim) + ".log");
  CHECK(contains(log, "; this process joins the job again"));
  const bool is_refused =
      contains(end.output, "cannot join the job again: this worker has been lost 3 times within 10 minutes");
  CHECK(is_refused == (kind.times == 3));
}

TEST_CASE("workers join a job, one leaves again, and the servers' decisions are those of the protocol", "[join]") {
  const std::string kind =
      GENERATE("dist_sync -s 1 --update-on worker", "dist_async -s 1", "dist_gsync -s 1", "allreduce -s 0 --cpus 2");
  INFO(kind);
  const bool has_servers = contains(kind, "-s 1");
  const std::string traced = has_servers ? "--trace-events events" : "";
  const ChangingJobs jobs("shrink", command_line("--max-workers 5 --kv-store", kind.c_str()));
  Process launcher(jobs.command("run", command_line("--num-epochs 1000 --inject step-ms=15", traced.c_str())),
                   jobs.options());
  REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
  const std::map<std::string, pid_t> before = jobs.survivors("run", kWorkers);
  Process leaver(command_line(dtrain_program(), "join"), jobs.options());
  REQUIRE(leaver.wait_for_output("joined the job in epoch ", kRunSeconds));
  Process stayer(command_line(dtrain_program(), "join --rank 4"), jobs.options());
  REQUIRE(stayer.wait_for_output("joined the job in epoch ", kRunSeconds));
  const Ended full = jobs.ask({"join"});
  CHECK(full.code == 2);
  CHECK(contains(full.output, "the job already has its 5 workers; --max-workers sets the largest number"));
  const Ended left = jobs.ask({"leave", "3"});
  const Ended leaving = leaver.wait(kRunSeconds);
  INFO(left.output << leaving.output);
  CHECK(left.code == 0);
  CHECK(leaving.code == 0);
  CHECK(before == jobs.survivors("run", kWorkers));
  launcher.signal(SIGTERM);
  const Ended end = launcher.wait(kRunSeconds);
  const Ended staying = stayer.wait(kRunSeconds);
  INFO(end.output << staying.output);
  CHECK(end.code == 75);
  CHECK(staying.code == 75);
  CHECK(jobs.changes("run") == "worker 3 joined, worker 4 joined, worker 3 left");
  CHECK(left_over(jobs.path("run")).empty());
  if (!has_servers) return;
  const Ended replayed = jobs.ask({"simulate", "--replay", "events"});
  INFO(replayed.output);
  CHECK(replayed.code == 0);
}

TEST_CASE("a worker that does not fit the job is refused with the reason, and the job continues", "[join]") {
  const ChangingJobs jobs("shrink", command_line("--max-workers 4 --kv-store dist_sync"));
  Process launcher(jobs.command("run", command_line("--num-epochs 100 --inject step-ms=10")), jobs.options());
  REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
  REQUIRE(jobs.ask(command_line("data synth --out other --count 60")).code == 0);
  struct Refused {
    std::string flags;
    int code;
    std::string why;
  };
  const std::array<Refused, 5> all = {
      Refused{"--batch-size 8", 2, "the flags of this worker differ from those of the job: batch-size"},
      Refused{"--data-dir other", 2, "but the workers of the job have 400 and "},
      Refused{"--rank 1", 2, "worker 1 takes part in the job, or is about to"},
      Refused{"--rank 7", 2, "rank 7 does not exist: the job has seats for 4 workers (--max-workers)"},
      Refused{"--data-dir nowhere", 7, "nowhere: train.rec"}};
  for (const Refused& one : all) {
    const Ended end = jobs.ask(command_line("join", one.flags.c_str()));
    INFO(one.flags << "\n" << end.output);
    CHECK(end.code == one.code);
    CHECK(contains(end.output, one.why));
  }
  launcher.signal(SIGTERM);
  const Ended end = launcher.wait(kRunSeconds);
  INFO(end.output);
  CHECK(end.code == 75);
  CHECK(jobs.summary("run").at("changes").empty());
}

TEST_CASE("a worker that is killed while it joins leaves no trace, and another one can join", "[join]") {
  const ChangingJobs jobs("shrink", command_line("--max-workers 4 --kv-store dist_sync"));
  Process launcher(jobs.command("run", command_line("--num-epochs 1000 --inject step-ms=10")), jobs.options());
  REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
  const std::map<std::string, pid_t> before = jobs.survivors("run", kWorkers);
  for (int i = 0; i < 8; i++) {
    Process joiner(command_line(dtrain_program(), "join"), jobs.options());
    joiner.wait_for_output("no process prints this", 0.04 * i);
    joiner.signal(SIGKILL);
    (void)joiner.wait(kRunSeconds);
  }
  // The last one may still count as joining, until its connection has been closed for a second.
  std::unique_ptr<Process> joiner;
  do {
    joiner = std::make_unique<Process>(command_line(dtrain_program(), "join"), jobs.options());
  } while (!joiner->wait_for_output("joined the job in epoch ", kRunSeconds) && launcher.running());
  joiner->signal(SIGINT);  // it leaves
  const Ended left = joiner->wait(kRunSeconds);
  INFO(left.output);
  CHECK(left.code == 0);
  CHECK(contains(left.output, "left the job as asked"));
  CHECK(before == jobs.survivors("run", kWorkers));
  launcher.signal(SIGTERM);
  const Ended end = launcher.wait(kRunSeconds);
  INFO(end.output);
  CHECK(end.code == 75);
  CHECK(left_over(jobs.path("run")).empty());
}

TEST_CASE("a job that waits for another worker in vain ends and says how one could have joined", "[join]") {
  const ChangingJobs jobs("wait", command_line("--rejoin-timeout 2s --kv-store", GENERATE("dist_sync", "dist_async")));
  const Ended end = jobs.run("run", command_line("--num-epochs 1000 --inject kill=worker:0@step:30"));
  INFO(end.output);
  CHECK(end.code == 5);
  CHECK(contains(end.output, "or by: dtrain join --scheduler 127.0.0.1:"));
  CHECK(contains(end.output, "no other worker has taken its place within 2 s (--rejoin-timeout)"));
  CHECK(left_over(jobs.path("run")).empty());
}

TEST_CASE("a job loses ten workers, one after the other, and trains to its end", "[join]") {
  const ChangingJobs jobs("wait", command_line("--kv-store dist_sync"));
  Process launcher(jobs.command("run", command_line("--max-restarts 10 --num-epochs 1000 --inject step-ms=4")),
                   jobs.options());
  REQUIRE(launcher.wait_for_output("Epoch[0] Batch [", kRunSeconds));
  for (uint64_t i = 0; i < 10; i++) {
    const uint64_t rank = i % kWorkers;
    REQUIRE(::kill(process_of_job(jobs.path("run"), "worker", rank), SIGKILL) == 0);
    INFO("death " << i);
    REQUIRE(launcher.wait_for_output("(" + std::to_string(i + 1) + " of 10, --max-restarts)", kRunSeconds));
    REQUIRE(await_text(launcher, " has joined the job", i + 1));
  }
  launcher.signal(SIGTERM);
  const Ended end = launcher.wait(kRunSeconds);
  INFO(end.output);
  CHECK(end.code == 75);
  CHECK(jobs.summary("run").at("changes").size() == 20);
}
