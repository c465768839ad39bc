#include "launch/supervisor.h"

#include <algorithm>
#include <filesystem>

#include "launch/supervised.h"

using namespace dtrain;
using namespace dtrain::launch;
using namespace dtrain::launch::test;

TEST_CASE("a successful job has exit code 0 and prefixes all output with process names", "[launch]") {
  const TempDir dir;
  Launcher launcher(job_of(dir,
                           {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=3 steps=9; await done",
                            .workers = {"echo hello", "echo on stderr >&2; mark done"},
                            .servers = {"await done"}},
                           kPatient));
  CHECK(launcher.wait() == 0);
  CHECK(contains(launcher.output(), "[worker 0 here] hello\n"));
  CHECK(contains(launcher.output(), "[worker 1 here] on stderr\n"));
  CHECK(contains(launcher.output(), "step 3/9"));
  CHECK_FALSE(contains(launcher.output(), "127.0.0.1"));
  CHECK_FALSE(std::filesystem::exists(dir.path("record/job")));
}

TEST_CASE("what the scheduler has found is kept for the summary and is not shown", "[launch]") {
  const TempDir dir;
  Launcher launcher(job_of(
      dir,
      {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo 'finding {\"slow\":1}'; echo 'finding {}'; await done",
       .workers = {"echo 'finding {\"worker\":1}'; mark done"},
       .servers = {}},
      kPatient));
  CHECK(launcher.wait() == 0);
  CHECK(contains(launcher.output(), "FOUND {\"slow\":1}\nFOUND {}\nEND "));
  CHECK_FALSE(contains(launcher.output(), "[scheduler"));
  CHECK_FALSE(contains(launcher.output(), "FOUND {\"worker\":1}"));
}

TEST_CASE("the scheduler reads at once how each process has ended", "[launch]") {
  const TempDir dir;
  Launcher launcher(
      job_of(dir,
             {.scheduler =
                  "echo dtrain scheduler 127.0.0.1:1; echo live step=1; mark live; read a; echo \"got $a\"; mark told; "
                  "read b; echo \"got $b\"; exit 5",
              .workers = {"await live; kill -9 $$", "await told; exit 5"}},
             kPatient));
  CHECK(launcher.wait() == 5);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), "got ended worker:0 was killed by signal 9 (Killed)\n"));
  CHECK(contains(launcher.output(), "got ended worker:1 ended with code 5 (peer lost)\n"));
}

TEST_CASE("a scheduler that does not read its input does not hold up the launcher", "[launch]") {
  const TempDir dir;
  Launcher launcher(job_of(
      dir, {.scheduler = "exec <&-; echo dtrain scheduler 127.0.0.1:1; await done; exit 0", .workers = {"mark done"}},
      kPatient));
  CHECK(launcher.wait() == 0);
}

TEST_CASE("of all but the scheduler and worker 0 only warnings and errors are shown", "[launch]") {
  const TempDir dir;
  const std::string log = "echo '2016-05-12 10:11:12,345 Node[x] ";
  Job job = job_of(dir,
                   {.scheduler = log + "table'; echo dtrain scheduler 127.0.0.1:1; await done",
                    .workers = {log + "first'", log + "second'; " + log + "warning: slow'; echo a crash; mark done"},
                    .servers = {log + "of a server'; await done"}},
                   kPatient);
  Launcher launcher(std::move(job));
  CHECK(launcher.wait() == 0);
  const std::string& output = launcher.output();
  INFO(output);
  CHECK(contains(output, "dtrain: the logs of all processes are in "));
  CHECK(contains(output, "Node[x] table\n"));
  CHECK(contains(output, "[worker 0 here] 2016-05-12 10:11:12,345 Node[x] first\n"));
  CHECK(contains(output, "[worker 1 here] 2016-05-12 10:11:12,345 Node[x] warning: slow\n"));
  CHECK(contains(output, "[worker 1 here] a crash\n"));
  CHECK_FALSE(contains(output, "second"));
  CHECK_FALSE(contains(output, "of a server"));
}

TEST_CASE("a worker that ends before it has taken the place of a lost one is started again", "[launch]") {
  const TempDir dir;
  Job job = job_of(dir,
                   {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=1; mark live; read a; "
                                 "echo dtrain replace worker 0; await here; echo dtrain replaced worker 0; await done",
                    .workers = {"await live; kill -9 $$", "await done"}},
                   kPatient);
  job.may_lose_workers = true;
  job.replacements_max = 5;
  job.replacement = [&](const std::string& address, const std::string&, int rank, std::optional<size_t>) {
    return shell(dir, "worker", rank,
                 "echo asks " + address +
                     "; [ -e once ] || { mark once; exit 3; }; [ -e twice ] || { mark twice; "
                     "kill -9 $$; }; mark here; mark done");
  };
  Launcher launcher(job);
  CHECK(launcher.wait() == 0);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), "dtrain: another worker 0 is started on here (3 of 5, --max-restarts)"));
  CHECK_FALSE(contains(launcher.output(), "(4 of 5"));
}

TEST_CASE("a lost worker that had joined from elsewhere, and a lost server, are replaced", "[launch]") {
  const TempDir dir;
  Job job = job_of(dir,
                   {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=1; mark live; echo dtrain replace "
                                 "worker 12; echo dtrain replace server 1; await worker; await server; mark done",
                    .workers = {"await done"}},
                   kPatient);
  job.may_lose_workers = true;
  job.replacements_max = 5;
  job.replacement = [&](const std::string&, const std::string& role, int rank, std::optional<size_t>) {
    return shell(dir, role.c_str(), rank, "mark " + role + "; await done");
  };
  Launcher launcher(job);
  CHECK(launcher.wait() == 0);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), "another worker 12 is started on here"));
  CHECK(contains(launcher.output(), "another server 1 is started on here"));
}

TEST_CASE("a worker that is refused the place of a lost one is not started again", "[launch]") {
  const TempDir dir;
  const std::string start =
      "echo dtrain scheduler 127.0.0.1:1; echo live step=1; mark live; read a; echo dtrain replace worker 0; ";
  const std::string end = "read b; mark done; exit 5";
  Job job =
      job_of(dir, {.scheduler = start + end, .workers = {"await live; kill -9 $$", "await done; exit 5"}}, kPatient);
  job.may_lose_workers = true;
  job.replacements_max = 5;
  job.replacement = [&](const std::string&, const std::string&, int rank, std::optional<size_t>) {
    return shell(dir, "worker", rank, "echo 'error [usage] other data' >&2; exit 2");
  };
  const bool is_taken = GENERATE(false, true);  // whether another worker has taken the place meanwhile
  if (is_taken) job.scheduler = shell(dir, "scheduler", 0, start + "echo dtrain replaced worker 0; " + end);
  Launcher launcher(job);
  CHECK(launcher.wait() == 5);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), "error [usage] other data"));
  CHECK(contains(launcher.output(), "(1 of 5"));
  CHECK_FALSE(contains(launcher.output(), "(2 of 5"));
}

TEST_CASE("a scheduler that is killed is started again at its address, and the job ends well", "[launch]") {
  const TempDir dir;
  Job job = job_of(dir,
                   {.scheduler = "echo dtrain scheduler 127.0.0.1:7; echo live step=1; mark live; kill -9 $$",
                    .workers = {"await live; await done"},
                    .servers = {"await done"}},
                   kPatient);
  job.replacements_max = 2;
  job.returning_scheduler = [&](const std::string& address, int64_t times) {
    return shell(
        dir, "scheduler", 0,
        fmt::format("echo dtrain scheduler {0}; echo again {1}; [ {1} = 2 ] || kill -9 $$; mark done", address, times));
  };
  Launcher launcher(job);
  CHECK(launcher.wait() == 0);
  INFO(launcher.output());
  CHECK(
      contains(launcher.output(), "the scheduler was killed by signal 9 (Killed); it is started again and continues"));
  CHECK(contains(launcher.output(), "(2 of 2, --max-restarts)"));
  CHECK(contains(launcher.output(), "again 2"));
}

TEST_CASE("a scheduler that is killed too often, or ends by itself, ends the job", "[launch]") {
  const TempDir dir;
  const bool is_killed = GENERATE(false, true);
  Job job = job_of(dir,
                   {.scheduler = "echo dtrain scheduler 127.0.0.1:7; echo live step=1; mark live; kill -9 $$",
                    .workers = {"await live; await again; exit 4"}},
                   kPatient);
  job.replacements_max = is_killed ? 1 : 5;
  job.returning_scheduler = [&](const std::string&, int64_t) {
    return shell(dir, "scheduler", 0,
                 is_killed ? "mark again; kill -9 $$"
                           : "echo 'error [scheduler lost] there is no state' >&2; mark again; exit 4");
  };
  Launcher launcher(job);
  CHECK(launcher.wait() == 4);
  INFO(launcher.output());
  CHECK_FALSE(contains(launcher.output(), "(2 of"));
  CHECK(contains(launcher.output(),
                 is_killed ? "scheduler on here was killed by signal 9" : "error [scheduler lost] there is no state"));
}

TEST_CASE("a scheduler that is started again hears which processes have ended", "[launch]") {
  const TempDir dir;
  Job job = job_of(dir,
                   {.scheduler = "echo dtrain scheduler 127.0.0.1:7; echo live step=1; mark live; read a; kill -9 $$",
                    .workers = {"await done", "await live; kill -9 $$"}},
                   kPatient);
  job.may_lose_workers = true;
  job.replacements_max = 1;
  job.returning_scheduler = [&](const std::string&, int64_t) {
    return shell(dir, "scheduler", 0, "read a; echo heard $a; mark done");
  };
  Launcher launcher(job);
  CHECK(launcher.wait() == 0);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), "heard ended worker:1 was killed by signal 9"));
}

TEST_CASE("the last lines of output show the first error of the process that failed first", "[launch]") {
  const TempDir dir;
  Launcher launcher(job_of(
      dir,
      {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=1; mark live; await failed; exit 5",
       .workers =
           {"await live; echo 'error [data] a.rec: broken'; echo '  while training'; echo bye; mark failed; exit 7",
            "await failed; echo 'error [peer lost] worker 0'; exit 5"}},
      kPatient));
  CHECK(launcher.wait() == 7);
  const std::string& output = launcher.output();
  INFO(output);
  CHECK(
      output.ends_with("dtrain: logs are in runs/x\n"
                       "dtrain: worker 0 on here ended with code 7 (data); its first error:\n"
                       "error [data] a.rec: broken\n  while training\n"
                       "END 43 of 3\n"));
  CHECK(contains(output, "[worker 1 here] error [peer lost] worker 0"));  // it had time to report this
}

// The scheduler tells all processes why the job ends, so another one may end before the process that failed.
TEST_CASE("the process that failed is named, even if another one ends first", "[launch]") {
  const TempDir dir;
  Launcher launcher(
      job_of(dir,
             {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=1; mark live; await failed; "
                           "echo 'error [data] worker 0 failed: a.rec: broken'; exit 7",
              .workers = {"await failed; echo 'error [data] a.rec: broken'; exit 7",
                          "await live; echo 'error [data] worker 0 failed: a.rec: broken'; mark failed; exit 7"}},
             kPatient));
  CHECK(launcher.wait() == 7);
  INFO(launcher.output());
  CHECK(contains(launcher.output(),
                 "dtrain: worker 0 on here ended with code 7 (data); its first error:\nerror [data] a.rec: broken\n"));
}

TEST_CASE("a part of a job starts no scheduler, and its processes get time to report what they lost", "[launch]") {
  const TempDir dir;
  Job job = job_of(dir,
                   {.scheduler = "mark scheduler",
                    .workers = {"await dead; echo 'error [peer lost] server 0 is gone' >&2; exit 5"},
                    .servers = {"mark dead; kill -9 $$"}},
                   kPatient);
  job.joins_scheduler = true;
  job.scheduler_address = "127.0.0.1:1";
  Launcher launcher(job);
  CHECK(launcher.wait() == 5);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), "server 0 on here was killed by signal 9 (Killed)"));
  CHECK(contains(launcher.output(), "  worker 0: error [peer lost] server 0 is gone"));
  CHECK_FALSE(std::filesystem::exists(dir.path("scheduler")));
  CHECK(all_gone(dir));
}

TEST_CASE("a failed start stops the other processes at once", "[launch]") {
  const TempDir dir;
  Launcher launcher(
      job_of(dir, {.workers = {"await up; exit 2", "mark up; " + Scripts::kForever}, .servers = {Scripts::kForever}},
             kPatient));
  CHECK(launcher.wait() == 2);
  CHECK(all_gone(dir));
}

TEST_CASE("a process that cannot be executed fails the start with the program's name", "[launch]") {
  const TempDir dir;
  Job job = job_of(dir, {}, kPatient);
  SECTION("the process is a worker") {
    job.others = [&](const std::string&) {
      return std::vector<Command>{
          shell(dir, "server", 0, Scripts::kForever),
          {.role = "worker", .host = "here", .arguments = {"/no/such/program"}, .environment = {}}};
    };
    Launcher launcher(job);
    CHECK(launcher.wait() == 3);
    INFO(launcher.output());
    CHECK(contains(launcher.output(), "error [start-up] cannot execute '/no/such/program': No such file"));
    CHECK(contains(launcher.output(), "while starting worker 0 of job 'job'"));
    CHECK(all_gone(dir));
  }
  SECTION("the process is the scheduler") {
    job.scheduler.arguments = {"/no/such/program"};
    Launcher launcher(job);
    CHECK(launcher.wait() == 98);
    CHECK(contains(launcher.output(), "cannot execute '/no/such/program'"));
  }
}

TEST_CASE("the start fails if the scheduler does not report its address", "[launch]") {
  const TempDir dir;
  SECTION("the scheduler hangs") {
    Launcher launcher(job_of(dir, {.scheduler = Scripts::kForever, .workers = {"mark started"}}, kQuick));
    CHECK(launcher.wait() == 3);
    CHECK(contains(launcher.output(), "did not report its address within 0.3 s (--start-timeout)"));
  }
  SECTION("the scheduler ends without an error") {
    Launcher launcher(job_of(dir, {.scheduler = "echo something else", .workers = {"mark started"}}, kPatient));
    CHECK(launcher.wait() == 3);
    CHECK(contains(launcher.output(), "[scheduler here] something else"));
    CHECK(contains(launcher.output(), "ended before it reported its address"));
  }
  SECTION("the scheduler fails") {
    Launcher launcher(job_of(dir, {.scheduler = "echo 'error [denied] no token' >&2; exit 6"}, kPatient));
    CHECK(launcher.wait() == 6);
    CHECK(contains(launcher.output(), "its first error:\nerror [denied] no token\nEND 23 of 1\n"));
  }
  CHECK_FALSE(std::filesystem::exists(dir.path("started")));
  CHECK(all_gone(dir));
}

// The scripts end when asked, must be killed, or leave a grandchild that the launcher does not know.
TEST_CASE("an interrupted job leaves no process running", "[launch]") {
  const TempDir dir;
  SECTION("all processes stop when asked") {
    Launcher launcher(
        job_of(dir, {.workers = {Scripts::kObedient, Scripts::kObedient}, .servers = {Scripts::kObedient}}, kPatient));
    launcher.await("] ready", 3);
    const int signal = GENERATE(SIGINT, SIGTERM, SIGUSR1, SIGHUP);
    INFO("signal " << signal);
    launcher.signal(signal);
    CHECK(launcher.wait() == 75);
    CHECK(contains(launcher.output(), "[worker 1 here] stopped"));
    CHECK(contains(launcher.output(),
                   "dtrain: stopped before training began, so nothing was saved; the same command starts the job "
                   "again\nEND 0 of 4\n"));
  }
  SECTION("all processes stop when asked while they train") {
    Launcher launcher(job_of(dir,
                             {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=1; " + Scripts::kObedient,
                              .workers = {Scripts::kObedient}},
                             kPatient));
    launcher.await("] ready", 2);
    launcher.await("step 1");
    launcher.signal(SIGINT);
    CHECK(launcher.wait() == 75);
    CHECK(contains(launcher.output(), "dtrain: stopped; go on\nEND 0 of 2\n"));
  }
  SECTION("a process that does not stop is killed after a time limit") {
    Launcher launcher(job_of(dir, {.workers = {Scripts::kObedient, Scripts::kStubborn}}, kQuick));
    launcher.await("] ready");
    launcher.await("] stubborn");
    launcher.signal(SIGTERM);
    CHECK(launcher.wait() == 5);
    CHECK(contains(launcher.output(), "killing processes that did not stop: worker 1"));
    CHECK(contains(launcher.output(), "dtrain: worker 1 on here was killed, because it did not end in time\n"));
  }
  SECTION("a second interrupt kills all processes at once") {
    Launcher launcher(job_of(dir, {.workers = {Scripts::kStubborn, Scripts::kStubborn}}, kPatient));
    launcher.await("] stubborn", 2);
    launcher.signal(SIGINT);
    launcher.await("stopping the job");
    launcher.signal(SIGINT);
    CHECK(launcher.wait() == 5);
    CHECK(contains(launcher.output(), "second interrupt, killing the job"));
    CHECK(contains(launcher.output(), "dtrain: killed by the second interrupt; a checkpoint may be incomplete\nEND "));
    CHECK_FALSE(contains(launcher.output(), " on here was killed"));
  }
  SECTION("a worker leaves a child process") {
    Launcher launcher(
        job_of(dir, {.workers = {"sh -c 'echo $$ >> pids; mark; exec sleep 1000' & mark done"}}, kPatient));
    CHECK(launcher.wait() == 0);
  }
  CHECK(all_gone(dir));
  CHECK_FALSE(std::filesystem::exists(dir.path("record/job")));
}

TEST_CASE("all processes end if their launcher is killed", "[launch]") {
  const TempDir dir;
  Launcher launcher(
      job_of(dir, {.workers = {Scripts::kObedient, Scripts::kStubborn}, .servers = {Scripts::kStubborn}}, kQuick));
  launcher.await("] ready");
  launcher.await("] stubborn", 2);
  const Result<std::string> record = read_file(launcher.record(dir));
  REQUIRE(record);
  CHECK(std::count(record->begin(), record->end(), '\n') == 6);  // four processes, the time to stop, the address
  CHECK(contains(*record, "server 0 "));
  launcher.signal(SIGKILL);
  CHECK(launcher.wait() == 128 + SIGKILL);
  CHECK(all_gone(dir));
  const auto deadline = Clock::now() + kPatience;
  while (std::filesystem::exists(dir.path("record/job")) && Clock::now() < deadline) ::poll(nullptr, 0, 10);
  CHECK_FALSE(std::filesystem::exists(dir.path("record/job")));
}

TEST_CASE("processes that do not end by themselves after a failure are stopped", "[launch]") {
  const TempDir dir;
  Launcher launcher(
      job_of(dir,
             {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=1; mark live; " + Scripts::kObedient,
              .workers = {"await live; kill -9 $$", Scripts::kStubborn}},
             kQuick));
  CHECK(launcher.wait() == 5);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), "dtrain: worker 0 was killed by signal 9 (Killed)\n"));
  CHECK(contains(launcher.output(), "stopping processes that are still running: scheduler, worker 1"));
  CHECK(contains(launcher.output(), "killing processes that did not stop: worker 1"));
  CHECK(all_gone(dir));
}

// The killed process's own log does not mention its death, so its last lines would mislead.
TEST_CASE("the last lines of output name the killed process and the errors of the others", "[launch]") {
  const TempDir dir;
  const std::string saw = "await dead; echo 'error [peer lost] worker 0 is silent'; echo '  while training'; exit 5";
  Launcher launcher(
      job_of(dir,
             {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=1; mark live; await dead; exit 5",
              .workers = {"await live; echo all is well; (sleep 0.1; mark dead) & kill -9 $$", saw}},
             kPatient));
  CHECK(launcher.wait() == 5);
  const std::string& output = launcher.output();
  INFO(output);
  CHECK(
      contains(output,
               "dtrain: logs are in runs/x\n"
               "dtrain: worker 0 on here was killed by signal 9 (Killed): by kill -9, or by the kernel because memory "
               "ran out (see dmesg); the other processes report:\n"
               "  worker 1: error [peer lost] worker 0 is silent\n"
               "END 48 of 3\n"));
  CHECK_FALSE(contains(output, "its first error"));
}

// The launcher itself stops the others after a failed start, so what they say about that is no news.
TEST_CASE("the errors of processes that the launcher stopped are not shown as what others saw", "[launch]") {
  const TempDir dir;
  Launcher launcher(
      job_of(dir,
             {.scheduler = "trap 'echo error [preempted] asked to stop; exit 75' TERM; echo dtrain scheduler "
                           "127.0.0.1:1; mark trapped; sleep 1000 & wait",
              .workers = {"await trapped; kill -9 $$"}},
             kPatient));
  CHECK(launcher.wait() == 5);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), "because memory ran out (see dmesg)\nEND "));
}

// The scheduler ends after the launcher has seen the end of the server.
TEST_CASE("a worker that hangs is named as lost, and not only the process that noticed first", "[launch]") {
  const TempDir dir;
  Launcher launcher(job_of(
      dir,
      {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=1; mark live; await noticed; "
                    "while kill -0 $(cat server.pid) 2>/dev/null; do sleep 0.02; done; exit 5",
       .workers = {"echo 'error [peer lost] nothing of mine'; " + Scripts::kStubborn},
       .servers = {"echo $$ > server.pid; await live; echo 'error [peer lost] worker 0 was lost: silent for 9 ms'; "
                   "mark noticed; exit 5"}},
      kQuick));
  CHECK(launcher.wait() == 5);
  INFO(launcher.output());
  CHECK(contains(launcher.output(),
                 "dtrain: worker 0 on here was lost; server 0, which ended with code 5 (peer lost), reports:\n"
                 "error [peer lost] worker 0 was lost: silent for 9 ms\nEND "));
}

TEST_CASE("a process that fails without an error message is shown with its last lines", "[launch]") {
  const TempDir dir;
  Launcher launcher(job_of(dir, {.scheduler = "echo one; echo two; echo three; echo four; exit 1"}, kPatient));
  CHECK(launcher.wait() == 1);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), "ended with code 1 (internal error); its last lines:\ntwo\nthree\nfour\n"));
}

// A step and a checkpoint may take long. The launcher says what it waits for, and the time grows with the observed
// steps.
TEST_CASE("a stopped job has time to finish its step unless it is interrupted again", "[launch]") {
  const TempDir dir;
  Limits limits = kPatient;
  limits.kill_after = 0ms;
  limits.stop = 100s;
  limits.remind = 50ms;
  Launcher launcher(job_of(
      dir,
      {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=0; await done",
       .workers = {"trap 'mark asked' TERM; echo ready; while [ ! -e asked ]; do sleep 0.02; done; mark done; exit 75",
                   Scripts::kStubborn}},
      limits));
  launcher.await("] ready");
  launcher.await("] stubborn");
  launcher.await("step 0");
  launcher.signal(SIGTERM);
  launcher.await("each process ends its step, and a checkpoint is written; processes that are still running after 10");
  launcher.await("waiting for worker 1 to end (");
  launcher.signal(SIGINT);
  CHECK(launcher.wait() == 5);
  CHECK(contains(launcher.output(), "second interrupt, killing the job"));
  CHECK(contains(launcher.output(),
                 "dtrain: killed by the second interrupt; a checkpoint may be incomplete\n"
                 "dtrain: stopped; go on\n"
                 "END "));
  CHECK(all_gone(dir));
}

TEST_CASE("a job that other workers have joined continues without the launcher's own", "[launch]") {
  const TempDir dir;
  Limits impatient = kPatient;
  impatient.settle = impatient.wind_down = 0ms;
  Job job = job_of(dir,
                   {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=1; mark live; read a; read b; "
                                 "mark heard; read c; echo still here; exit 0",
                    .workers = {"await live; kill -9 $$", "await live"},
                    .servers = {"await heard"}},
                   impatient);
  job.may_lose_workers = true;
  Launcher launcher(job);
  CHECK(launcher.wait() == 0);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), "still here\n"));
}

TEST_CASE("a worker that is lost while the job stops is no cause of its end, and the job does not start again",
          "[launch]") {
  const TempDir dir;
  Job job =
      job_of(dir,
             {.scheduler = "trap 'await gone; exit 75' TERM; echo dtrain scheduler 127.0.0.1:1; echo live step=1; "
                           "mark live; sleep 1000 & wait",
              .workers = {"trap 'mark gone; kill -9 $$' TERM; echo ready; sleep 1000 & wait",
                          "trap 'await gone; exit 75' TERM; echo ready; sleep 1000 & wait"}},
             kPatient);
  job.may_lose_workers = true;
  Launcher launcher([&job](Screen& screen) {
    const Result<JobEnd> end = supervise(job, screen);
    if (!end || !end->stop_asked) return 98;
    return end->exit_code;
  });
  launcher.await("] ready");
  launcher.await("step 1");
  launcher.signal(SIGTERM);
  CHECK(launcher.wait() == 75);
  INFO(launcher.output());
  CHECK(contains(launcher.output(), "dtrain: worker 0 was killed by signal 9 (Killed)\n"));
  CHECK_FALSE(contains(launcher.output(), "ended with code 75"));
}

TEST_CASE("the time to stop grows with the job's checkpoints, unless --stop-timeout sets it", "[launch]") {
  const TempDir dir;
  Limits limits = kQuick;
  std::string expected = "processes that are still running after 301 s are killed";
  SECTION("three checkpoints are added") {
    limits.remind = 10ms;
  }
  SECTION("the given time is all") {
    limits.adds_measured = false;
    expected = "processes that are still running after 0 s are killed";
  }
  Launcher launcher(job_of(
      dir,
      {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=0 checkpoint_s=100.3; " + Scripts::kObedient,
       .workers = {Scripts::kStubborn}},
      limits));
  launcher.await("] stubborn");
  launcher.await("step 0");
  launcher.signal(SIGINT);
  launcher.await(expected);
  if (limits.adds_measured) launcher.await("waiting for worker 0 to end (30");
  if (limits.adds_measured) launcher.signal(SIGINT);
  CHECK(launcher.wait() == 5);
  CHECK(all_gone(dir));
}

// kQuick gives 300 ms, and the worker needs more than that for its checkpoint. A second TERM may end the first sleep.
TEST_CASE("processes keep the time that they need to stop if their launcher is killed", "[launch]") {
  const TempDir dir;
  Launcher launcher(job_of(
      dir,
      {.scheduler = "echo dtrain scheduler 127.0.0.1:1; echo live step=0 checkpoint_s=100; " + Scripts::kObedient,
       .workers =
           {"exec 2>/dev/null; trap 'sleep 1; sleep 1; mark saved; exit 75' TERM; echo ready; sleep 1000 & wait"}},
      kQuick));
  launcher.await("] ready", 2);
  launcher.await("step 0");
  const std::string record = read_file(launcher.record(dir)).value();
  CHECK(contains(record, "stop-time 0 0 300\n"));
  CHECK(record.find("stop-time") != record.rfind("stop-time"));  // a second line, with the new time
  launcher.signal(SIGKILL);
  CHECK(launcher.wait() == 128 + SIGKILL);
  CHECK(all_gone(dir));
  CHECK(std::filesystem::exists(dir.path("saved")));
}

TEST_CASE("servers that do not end after the last worker are stopped and count as failed", "[launch]") {
  const TempDir dir;
  Launcher launcher(job_of(dir, {.workers = {"mark done"}, .servers = {Scripts::kStubborn}}, kQuick));
  CHECK(launcher.wait() == 5);
  CHECK(contains(launcher.output(), "stopping processes that are still running: server 0"));
  CHECK(all_gone(dir));
}

TEST_CASE("SIGUSR2 reaches every process, and the job continues", "[launch]") {
  const TempDir dir;
  const std::string script =
      "trap 'echo waits: none' USR2; echo ready; while [ ! -e done ]; do sleep 0.02; done; exit 0";
  Launcher launcher(job_of(
      dir, {.scheduler = "echo dtrain scheduler 127.0.0.1:1; " + script, .workers = {script, script}}, kPatient));
  launcher.await("] ready", 3);
  launcher.signal(SIGUSR2);
  launcher.await("waits: none", 3);
  std::ofstream(dir.path("done")).put('\n');
  CHECK(launcher.wait() == 0);
}
