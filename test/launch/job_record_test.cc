#include "launch/job_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "base/file.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::launch;
using dtrain::test::TempDir;

TEST_CASE("a running job's processes are recorded in a directory of its user alone", "[launch]") {
  const TempDir dir;
  const std::string root = dir.path("a/b/dtrain");  // its parent directories are created
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

TEST_CASE("a job record is not written to a directory that others can write to", "[launch]") {
  const TempDir dir;
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

// Not in the runtime directory, which is removed when the user logs out while the job runs on.
TEST_CASE("job records are in the user's state directory", "[launch]") {
  using Variables = std::map<std::string, std::string>;
  const auto root = [](const Variables& variables) {
    return record_root([&](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
  };
  const TempDir home;
  CHECK(root({{"XDG_STATE_HOME", "/state"}, {"HOME", home.path()}}) == "/state/dtrain");
  CHECK(root({{"HOME", home.path()}, {"XDG_RUNTIME_DIR", "/run/user/1"}}) == home.path(".local/state/dtrain"));
  for (const char* none : {"", "relative", "/no/such/directory"}) {
    CHECK(root({{"HOME", none}}) == fmt::format("/tmp/dtrain-{}", ::getuid()));
  }
  CHECK(root({}) == fmt::format("/tmp/dtrain-{}", ::getuid()));
}

// Covers hosts that share a home directory, and a host that went down while a job ran on it.
TEST_CASE("records of ended processes are removed, but records of other hosts are kept", "[launch]") {
  const TempDir dir;
  const std::string root = dir.path("dtrain");
  std::string own;
  {
    Result<JobRecord> record = JobRecord::create(root, "mine");
    REQUIRE(record);
    own = std::filesystem::path(record->file()).filename().string();
  }
  CHECK(is_own_record(own));
  CHECK_FALSE(is_own_record("processes-elsewhere-12"));
  CHECK_FALSE(is_own_record(own + "-12"));
  for (const char* job : {"gone", "other", "running"}) REQUIRE(std::filesystem::create_directory(root + "/" + job));
  REQUIRE(write_file_atomic(root + "/gone/" + own, "worker 0 1 1\n"));  // process 1 started at another time
  REQUIRE(write_file_atomic(root + "/other/processes-elsewhere-12", "worker 0 1 1\n"));
  const std::string self = fmt::format("{} {}", ::getpid(), process_start_time(::getpid()).value());
  REQUIRE(write_file_atomic(root + "/running/" + own, "worker 0 1 1\nworker 1 " + self + "\n"));
  REQUIRE(JobRecord::create(root, "next"));
  CHECK_FALSE(std::filesystem::exists(root + "/gone"));
  CHECK(std::filesystem::exists(root + "/other/processes-elsewhere-12"));
  CHECK(std::filesystem::exists(root + "/running/" + own));
}

TEST_CASE("the start time distinguishes a process from a later one with the same pid", "[launch]") {
  CHECK(process_start_time(::getpid()).value() > 0);
  CHECK(process_start_time(::getpid()) == process_start_time(::getpid()));
  CHECK_FALSE(process_start_time(-1));
}
