#include "launch/restarts.h"

#include "job/process/exit_code.h"
#include "launch/supervised.h"

using namespace dtrain;
using namespace dtrain::launch;
using namespace dtrain::launch::test;

namespace {

JobEnd killed_after(int64_t step) {
  return {.exit_code = job::kExitPeerLost, .error = "worker 1 was killed", .was_killed = true, .step = step};
}
JobEnd failed_after(int64_t step, const std::string& error = "error [internal] step 7: the loss is not finite") {
  return {.exit_code = job::kExitInternal, .error = error, .step = step};
}
JobEnd start_failed(std::vector<size_t> hosts = {}) {
  return {.exit_code = job::kExitStartup, .error = "node2 cannot be reached", .failed_hosts = std::move(hosts)};
}

bool no_spare() {
  return false;
}
bool spare() {
  return true;
}

// The waits before the restarts that follow these ends, in seconds; -1: no restart.
std::vector<int64_t> waits_after(RestartPolicy policy, const std::vector<JobEnd>& ends) {
  std::vector<int64_t> waits;
  for (const JobEnd& end : ends) {
    const RestartPolicy::Decision decision = policy.after(end, no_spare);
    waits.push_back(decision.restarts ? decision.wait.count() : -1);
  }
  return waits;
}

std::string why_not(RestartPolicy policy, const std::vector<JobEnd>& ends) {
  std::string why;
  for (const JobEnd& end : ends) why = policy.after(end, no_spare).why_not;
  return why;
}

}  // namespace

TEST_CASE("a job starts again at once, and waits longer each time until it gets further than before", "[launch]") {
  std::vector<JobEnd> ends = {killed_after(100)};
  for (int64_t i = 0; i < 9; i++) ends.push_back(killed_after(90 - i));
  CHECK(waits_after(RestartPolicy(20), ends) == std::vector<int64_t>{0, 1, 2, 4, 8, 16, 32, 60, 60, 60});
  ends.push_back(killed_after(101));
  ends.push_back(killed_after(50));
  const std::vector<int64_t> waits = waits_after(RestartPolicy(20), ends);
  CHECK(std::vector<int64_t>(waits.end() - 2, waits.end()) == std::vector<int64_t>{0, 1});
}

TEST_CASE("a job starts again only as often as it may", "[launch]") {
  CHECK(waits_after(RestartPolicy(2), {killed_after(1), killed_after(2), killed_after(3)}) ==
        std::vector<int64_t>{0, 0, -1});
  CHECK(why_not(RestartPolicy(1), {killed_after(1), killed_after(2)}) == "--max-restarts 1 allows no more restarts");
  CHECK(why_not(RestartPolicy(0), {killed_after(1)}).empty());  // nobody asked for restarts
}

TEST_CASE("a job whose cause cannot go away does not start again", "[launch]") {
  for (const int code : {job::kExitUsage, job::kExitDenied, job::kExitData}) {
    CHECK(why_not(RestartPolicy(5), {{.exit_code = code, .error = "x", .step = 5}}) ==
          "it would fail again in the same way");
  }
  for (const int code : {job::kExitInternal, job::kExitSchedulerLost, job::kExitPeerLost, job::kExitDevice}) {
    CHECK(waits_after(RestartPolicy(5), {{.exit_code = code, .error = "x", .step = 5}}) == std::vector<int64_t>{0});
  }
  CHECK(why_not(RestartPolicy(5), {{.exit_code = job::kExitOk}}).empty());
  CHECK(waits_after(RestartPolicy(5), {{.exit_code = job::kExitOk}}) == std::vector<int64_t>{-1});
  CHECK(waits_after(RestartPolicy(5), {{.exit_code = job::kExitPreempted}}) == std::vector<int64_t>{-1});
  JobEnd by_user = killed_after(3);
  by_user.stop_asked = true;
  CHECK(waits_after(RestartPolicy(5), {by_user}) == std::vector<int64_t>{-1});
}

TEST_CASE("a start that fails is tried again if the job has trained before, or if its host is replaced", "[launch]") {
  CHECK(why_not(RestartPolicy(5), {start_failed({2})}) == "it has never trained");
  CHECK(RestartPolicy(5).after(start_failed({2}), spare).restarts);
  CHECK_FALSE(RestartPolicy(5).after(start_failed(), spare).restarts);  // no host is to blame
  CHECK(waits_after(RestartPolicy(5), {killed_after(3), start_failed({2})}) == std::vector<int64_t>{0, 1});
}

TEST_CASE("a spare host is taken only for a job that starts again", "[launch]") {
  int taken = 0;
  const auto take = [&taken] { return ++taken > 0; };
  RestartPolicy policy(1);
  CHECK(policy.after(killed_after(1), take).restarts);
  CHECK(taken == 1);
  CHECK_FALSE(policy.after(killed_after(2), take).restarts);
  CHECK_FALSE(RestartPolicy(0).after(killed_after(1), take).restarts);
  CHECK(taken == 1);
}

TEST_CASE("the third failure of the same kind is the last", "[launch]") {
  // The same error, found by a process, however far the job is reported to have got when it is found.
  CHECK(waits_after(RestartPolicy(9), {failed_after(7), failed_after(6), failed_after(5)}) ==
        std::vector<int64_t>{0, 1, -1});
  CHECK(why_not(RestartPolicy(9), {failed_after(7), failed_after(6), failed_after(5)}) ==
        "it has failed in the same way 3 times, after step 5");
  const auto found_by = [](int rank) { return fmt::format("error [internal] step 12, rank {}: not finite", rank); };
  CHECK(waits_after(RestartPolicy(9), {failed_after(7, found_by(0)), failed_after(7, found_by(11)),
                                       failed_after(7, found_by(1))}) == std::vector<int64_t>{0, 1, -1});
  CHECK(waits_after(RestartPolicy(9), {failed_after(7), failed_after(8), failed_after(9)}) ==
        std::vector<int64_t>{0, 0, 0});  // it gets further
  CHECK(waits_after(RestartPolicy(9), {failed_after(7), failed_after(7, "another error"), failed_after(7)}) ==
        std::vector<int64_t>{0, 1, 2});
  // A kill may come at any time, so only the same step makes it the same failure.
  CHECK(waits_after(RestartPolicy(9), {killed_after(7), killed_after(7), killed_after(7)}) ==
        std::vector<int64_t>{0, 1, -1});
  CHECK(waits_after(RestartPolicy(9), {killed_after(7), killed_after(6), killed_after(7)}) ==
        std::vector<int64_t>{0, 1, 2});
}

TEST_CASE("the last lines say what was lost, and what it cost", "[launch]") {
  CHECK(restarts_text({}).empty());
  CHECK(restarts_text({{.cause = "worker 1 was killed", .step = 70, .seconds = 3.14}}) ==
        "the job was restarted once\n  after step 70: worker 1 was killed; it took 3.1 s to get there again");
  CHECK(restarts_text({{.cause = "a", .step = 7, .seconds = 1.0}, {.cause = "b", .step = 9, .seconds = {}}}) ==
        "the job was restarted 2 times\n  after step 7: a; it took 1.0 s to get there again\n  after step 9: b; it did "
        "not get there again");
}

namespace {

// Runs the job of `scripts`, in which $restart is the number of the restart.
class Restarted {
 public:
  Restarted(const TempDir& dir, int64_t restarts_max, Scripts scripts)
      : job_{.restarts_max = restarts_max,
             .make = [&dir, scripts = std::move(scripts)](int64_t restart) -> Result<Job> {
               Scripts numbered = scripts;
               const std::string number = fmt::format("restart={}; ", restart);
               numbered.scheduler = number + numbered.scheduler;
               for (std::string& worker : numbered.workers) worker.insert(0, number);
               return job_of(dir, numbered, kPatient);
             },
             .use_spare = [](size_t) { return std::optional<std::string>(); }},
        launcher_([this](Screen& screen) {
          const Result<JobEnd> end = supervise_with_restarts(job_, screen);
          for (size_t i = 0; end && i < end->restarts.size(); i++) screen.line("LOST " + end->restarts[i].cause);
          return end ? end->exit_code : 98;
        }) {}
  Launcher& operator*() { return launcher_; }

 private:
  RestartableJob job_;
  Launcher launcher_;
};

const std::string kReportsStep =
    "echo dtrain scheduler 127.0.0.1:1; echo live step=$((restart + 1)); mark live$restart; ";

}  // namespace

TEST_CASE("a job whose worker is killed trains to its end", "[launch]") {
  const TempDir dir;
  Restarted job(dir, 5,
                {.scheduler = kReportsStep + "if [ $restart = 2 ]; then await done; else read ended; exit 5; fi",
                 .workers = {"await live$restart; if [ $restart = 2 ]; then mark done; else kill -9 $$; fi"}});
  CHECK((*job).wait() == 0);
  const std::string& output = (*job).output();
  INFO(output);
  CHECK(contains(output, "dtrain: restart 1 of 5: all processes start again and continue from the last checkpoint\n"));
  CHECK(contains(output, "dtrain: restart 2 of 5"));
  CHECK(contains(output,
                 "dtrain: the job was restarted 2 times\n  after step 1: worker 0 on here was killed by signal 9"));
  CHECK(contains(output, "LOST worker 0 on here was killed by signal 9 (Killed)\n"));
  CHECK(all_gone(dir));
}

TEST_CASE("a job that cannot go on says why, and its last failure decides its exit code", "[launch]") {
  const TempDir dir;
  Restarted job(
      dir, 5,
      {.scheduler = kReportsStep + "read ended; exit 5",
       .workers = {"await live$restart; if [ $restart = 0 ]; then kill -9 $$; fi; echo 'error [data] broken'; "
                   "exit 7"}});
  CHECK((*job).wait() == 7);
  INFO((*job).output());
  CHECK(
      contains((*job).output(), "dtrain: the job is not started again, because it would fail again in the same way\n"));
}

TEST_CASE("a signal ends the wait before a restart", "[launch]") {
  const TempDir dir;
  Restarted job(dir, 5,
                {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=$((9 - restart)); mark live$restart; "
                              "read ended; exit 5",
                 .workers = {"await live$restart; kill -9 $$"}});
  (*job).await("restart 4 of 5 in 4.0 s");
  (*job).signal(SIGTERM);
  CHECK((*job).wait() == job::kExitPreempted);
  CHECK(contains((*job).output(), "dtrain: stopped before the restart (Terminated)\n"));
}
