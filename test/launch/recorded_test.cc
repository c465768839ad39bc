#include "launch/recorded.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "launch/job_record.h"
#include "launch/supervised.h"
#include "support/catch.h"
#include "support/process.h"

using namespace dtrain;
using namespace dtrain::launch;
using dtrain::test::TempDir;

TEST_CASE("only processes that match their record are listed", "[launch]") {
  const TempDir dir;
  const std::string root = dir.path("dtrain");
  CHECK(recorded_processes(root).value().empty());  // no job has ever run
  dtrain::test::Process process({"sleep", "1000"});
  JobRecord record = JobRecord::create(root, "lenet-1").value();
  REQUIRE(record.add("worker", 3, process.pid()));
  CHECK(recorded_processes(root).value().at(0).stop_time == kStopTime);
  record.set_stop_time(std::chrono::seconds(200));
  REQUIRE(record.add("worker", 4, 1 << 30));  // gone
  record.set_scheduler("10.0.0.1:9091", "0123abcd");
  record.set_stop_time(std::chrono::seconds(300));
  // A pid that was reused.
  std::ofstream(record.file(), std::ios::app) << fmt::format("server 0 {} {}\n", ::getpid(), 1);
  const std::vector<RecordedProcess> processes = recorded_processes(root).value();
  REQUIRE(processes.size() == 1);
  CHECK(processes[0].job == "lenet-1");
  CHECK(processes[0].role == "worker");
  CHECK(processes[0].rank == 3);
  CHECK(processes[0].pid == process.pid());
  CHECK(processes[0].seconds >= 0);
  CHECK(processes[0].stop_time == std::chrono::seconds(300));
  CHECK(processes[0].scheduler == "10.0.0.1:9091");
  CHECK(processes[0].token == "0123abcd");
  CHECK(plain(processes).find("0123abcd") == std::string::npos);
  CHECK(table(processes).find(fmt::format("lenet-1  worker        3")) != std::string::npos);
  const auto read_back = parse_plain({"Welcome!", plain(processes)});
  REQUIRE(read_back.size() == 1);
  CHECK(read_back[0].start == processes[0].start);
}

TEST_CASE("a record that other users can write to is refused", "[launch]") {
  const TempDir dir;
  std::filesystem::create_directory(dir.path("open"));
  REQUIRE(::chmod(dir.path("open").c_str(), 0777) == 0);
  CHECK(recorded_processes(dir.path("open")).error().code == Code::kStartup);
}

TEST_CASE("processes are asked to end and killed if they do not", "[launch]") {
  const TempDir dir;
  JobRecord record = JobRecord::create(dir.path("dtrain"), "job").value();
  dtrain::test::Process obedient({"sh", "-c", "echo ready; exec sleep 1000"});
  dtrain::test::Process stubborn({"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done"});
  REQUIRE(obedient.wait_for_output("ready", 20));
  REQUIRE(stubborn.wait_for_output("ready", 20));
  REQUIRE(record.add("worker", 0, obedient.pid()));
  REQUIRE(record.add("worker", 1, stubborn.pid()));
  auto processes = recorded_processes(dir.path("dtrain")).value();
  REQUIRE(processes.size() == 2);
  CHECK(end_processes(std::move(processes), std::chrono::milliseconds(100)).empty());
  CHECK(obedient.wait(20).signal == SIGTERM);
  CHECK(stubborn.wait(20).signal == SIGKILL);
}

TEST_CASE("a process that does not match its record is not signaled", "[launch]") {
  dtrain::test::Process process({"sleep", "1000"});
  CHECK(end_processes({{.job = "job", .role = "worker", .pid = process.pid(), .start = 1, .host = ""}},
                      std::chrono::milliseconds(100))
            .empty());
  CHECK(process.running());
}
