#include "launch/job_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "base/file.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::launch;

TEST_CASE("the processes of a job are on record while it runs, for its user alone", "[launch]") {
  const test::TempDir dir;
  const std::string root = record_root(dir.path());
  CHECK(root == dir.path("dtrain"));
  {
    Result<JobRecord> record = JobRecord::create(root, "lenet-1");
    REQUIRE(record);
    REQUIRE(record->add("worker", 3, ::getpid()));
    CHECK(*read_file(record->file()) ==
          fmt::format("worker 3 {} {}\n", ::getpid(), process_start_time(::getpid()).value()));
    CHECK((std::filesystem::status(root).permissions() & std::filesystem::perms::others_all) ==
          std::filesystem::perms::none);
  }
  CHECK_FALSE(std::filesystem::exists(root + "/lenet-1"));
}

TEST_CASE("a place that others may write to is refused for the record", "[launch]") {
  const test::TempDir dir;
  REQUIRE(std::filesystem::create_directory(dir.path("open")));
  REQUIRE(::chmod(dir.path("open").c_str(), 0777) == 0);
  std::filesystem::create_directory(dir.path("elsewhere"));
  std::filesystem::create_directory_symlink(dir.path("elsewhere"), dir.path("link"));
  for (const char* root : {"open", "link"}) {
    const Result<JobRecord> record = JobRecord::create(dir.path(root), "job");
    REQUIRE_FALSE(record);
    CHECK(record.error().code == Code::kStartup);
    CHECK(record.error().message.find(dir.path(root)) != std::string::npos);
  }
}

TEST_CASE("without a runtime directory the record lies in /tmp", "[launch]") {
  CHECK(record_root("") == fmt::format("/tmp/dtrain-{}", ::getuid()));
  CHECK(record_root("/no/such/directory") == record_root(""));
}

TEST_CASE("the start time tells a process from a later one with its pid", "[launch]") {
  CHECK(process_start_time(::getpid()).value() > 0);
  CHECK(process_start_time(::getpid()) == process_start_time(::getpid()));
  CHECK_FALSE(process_start_time(-1));
}
