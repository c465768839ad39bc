#include "launch/outcome.h"

#include <csignal>

#include "support/catch.h"

using namespace dtrain::launch;

namespace {
Ended left(const std::string& role, int code, bool stopped = false) {
  return {.name = role, .role = role, .code = code, .stopped = stopped};
}
Ended killed(const std::string& role, int signal, bool stopped = false) {
  return {.name = role, .role = role, .signal = signal, .stopped = stopped};
}
}  // namespace

TEST_CASE("a job succeeds only if every process succeeds", "[launch]") {
  CHECK(job_code({left("worker", 0), left("server", 0), left("scheduler", 0)}) == 0);
  CHECK(job_code({left("worker", 0), left("server", 1), left("scheduler", 0)}) == 1);
  CHECK_FALSE(root_cause({left("worker", 0)}));
}

// The processes are in the order of time. The cause decides, even if its end was noticed later.
TEST_CASE("the exit code of a job is that of the process that failed first", "[launch]") {
  CHECK(job_code({left("worker", 7), left("worker", 5), left("server", 5)}) == 7);
  CHECK(job_code({left("server", 5), left("worker", 7)}) == 7);
  CHECK(job_code({left("worker", 2), left("worker", 7)}) == 2);
  CHECK(job_code({left("server", 5), killed("worker", SIGSEGV)}) == 1);
  CHECK(job_code({left("server", 5), killed("worker", SIGKILL)}) == 5);
  CHECK(job_code({left("worker", 4), killed("scheduler", SIGKILL), left("server", 4)}) == 4);
  CHECK(*root_cause({left("worker", 4), killed("scheduler", SIGKILL), left("server", 4)}) == 1);
  CHECK(job_code({left("worker", 8), left("worker", 75, true)}) == 8);
}

TEST_CASE("a process that passes on the error of another one is not the cause", "[launch]") {
  Ended server = left("server", 7);
  server.passes_on = true;
  CHECK(*root_cause({server, left("worker", 7)}) == 1);
  CHECK(*root_cause({server, left("worker", 5), killed("worker", SIGKILL, true)}) == 0);
}

TEST_CASE("a stopped job has exit code 75 unless a process had to be killed", "[launch]") {
  CHECK(job_code({left("worker", 75, true), left("server", 75, true), left("scheduler", 0, true)}) == 75);
  CHECK(job_code({left("server", 5, true), left("worker", 75, true)}) == 75);
  CHECK(job_code({killed("worker", SIGTERM, true), left("server", 75, true)}) == 75);
  CHECK(job_code({left("worker", 75, true), killed("server", SIGKILL, true)}) == 5);
  CHECK(job_code({killed("scheduler", SIGKILL, true), left("worker", 75, true)}) == 5);
}

TEST_CASE("a host that is lost after its job has ended is no failure", "[launch]") {
  Ended server = left("server", 0);
  server.lost = true;
  CHECK(job_code({left("worker", 75), left("scheduler", 75), server}) == 75);
  CHECK(job_code({left("worker", 0), left("scheduler", 0), server}) == 0);
  CHECK(job_code({left("worker", 75), server, left("scheduler", 75)}) == 5);
  CHECK(job_code({left("worker", 75), left("scheduler", 5), server}) == 5);
}

TEST_CASE("the end of a process is described in words", "[launch]") {
  CHECK(describe(left("worker", 7)) == "ended with code 7 (data)");
  CHECK(describe(killed("worker", SIGKILL)) == "was killed by signal 9 (Killed)");
  CHECK(describe(killed("worker", SIGSEGV)) == "crashed with signal 11 (Segmentation fault)");
}

TEST_CASE("the first error of a process is kept with its context", "[launch]") {
  FirstError first;
  for (const char* line : {"starting", "error [data] a.rec: broken", "  while reading a.rec", "  while training",
                           "more", "  while nothing", "error [peer lost] server 0", "  while waiting"}) {
    first.line(line);
  }
  CHECK(first.error() ==
        std::vector<std::string>{"error [data] a.rec: broken", "  while reading a.rec", "  while training"});
}

TEST_CASE("the last lines of a process without an error message are kept", "[launch]") {
  FirstError first;
  CHECK(first.last_lines().empty());
  for (const char* line : {"1", "2", "3", "4"}) first.line(line);
  CHECK(first.error().empty());
  CHECK(first.last_lines() == std::vector<std::string>{"2", "3", "4"});
}
