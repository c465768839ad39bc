#include "role/run_dir.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "base/file.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::role;

namespace {

job::Flags lenet(const std::string& resume) {
  job::Flags flags;
  flags.job.network.network = "lenet";
  flags.job.scheme.kv_store = "device";
  flags.loop.resume = resume;
  return flags;
}

// The run that a process of these flags would leave behind in `directory`.
void leave_run(const std::string& directory, job::Flags flags, uint64_t seed) {
  flags.job.seed = seed;
  REQUIRE(make_directories(directory));
  REQUIRE(write_file_atomic(directory + "/" + job::kJobSpecFile, job::text(job::requested(flags))));
}

// Default run directories are relative to the working directory.
class InDirectory {
 public:
  explicit InDirectory(const std::string& path) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(path);
  }
  ~InDirectory() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

}  // namespace

TEST_CASE("auto resumes the newest run of the same job, however long it was meant to be", "[role]") {
  const test::TempDir dir;
  const InDirectory here(dir.path());
  job::Flags other = lenet("");
  other.job.batch_size = 7;
  leave_run("runs/a", lenet(""), 5);
  leave_run("runs/b", lenet(""), 6);
  leave_run("runs/c", other, 7);
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time("runs/a/jobspec", now - std::chrono::hours(2));
  std::filesystem::last_write_time("runs/b/jobspec", now - std::chrono::hours(1));

  job::Flags longer = lenet("auto");
  longer.job.num_epochs += 2;
  const auto found = find_resumed(longer);
  REQUIRE((found && *found));
  CHECK((*found)->directory == "runs/b");
  CHECK((*found)->spec.flags.seed == 6);
  CHECK(choose_run_dir(longer, *found) == "runs/b");
  CHECK(load_prefix(longer, "elsewhere", *found) == "runs/b/lenet");

  longer.job.seed = 5;
  CHECK((*find_resumed(longer))->directory == "runs/a");
  longer.job.seed = 99;
  CHECK(!*find_resumed(longer));
}

TEST_CASE("a directory that holds no run is refused by name", "[role]") {
  const test::TempDir dir;
  const auto found = find_resumed(lenet(dir.path("absent")));
  REQUIRE(!found);
  CHECK(found.error().code == Code::kNotFound);
  CHECK_THAT(found.error().text(), Catch::Contains("absent/jobspec"));
}

TEST_CASE("prefixes follow the flags, then the run directory", "[role]") {
  job::Flags flags = lenet("");
  CHECK(save_prefix(flags, "runs/x") == "runs/x/lenet");
  flags.loop.model_prefix = "models/m";
  CHECK(save_prefix(flags, "runs/x") == "models/m");
  CHECK(load_prefix(flags, "runs/x", std::nullopt) == "models/m");
  flags.loop.save_model_prefix = "models/s";
  CHECK(save_prefix(flags, "runs/x") == "models/s");
}
