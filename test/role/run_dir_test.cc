#include "role/process/run_dir.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "role/runs.h"
#include "support/catch.h"
#include "train/rate_request.h"

using namespace dtrain;
using namespace dtrain::role;
using Catch::Matchers::Contains;
using dtrain::test::must;

namespace {

namespace fs = std::filesystem;

void write(const std::string& path, const std::string& text = "x") {
  std::ofstream(path) << text;
}

// Writes the file that training writes first.
void begin(const RunDir& dir) {
  write(dir.path() + "/metrics.jsonl");
}

std::string refused(const job::Flags& flags, const std::optional<Resumed>& resumed = std::nullopt) {
  const Result<RunDir> dir = RunDir::claim(flags, resumed);
  REQUIRE_FALSE(dir);
  CHECK(dir.error().code == Code::kUsage);
  return dir.error().text();
}

}  // namespace

TEST_CASE("runs that start in the same second get different directories", "[role]") {
  const test::InTempDir here;
  const job::Flags flags = test::lenet({});
  std::vector<std::string> paths;
  for (int i = 0; i < 3; i++) {
    const RunDir dir = must(RunDir::claim(flags, std::nullopt));
    CHECK(std::find(paths.begin(), paths.end(), dir.path()) == paths.end());
    CHECK(fs::is_directory(dir.path()));
    paths.push_back(dir.path());
    begin(dir);
  }
  CHECK_THAT(paths[0], Catch::StartsWith("runs/lenet-"));
}

TEST_CASE("a failed start removes everything that it has created", "[role]") {
  const test::InTempDir here;
  {
    const RunDir dir = must(RunDir::claim(test::lenet({"--save-model-prefix", "models/deep/m"}), std::nullopt));
    CHECK(fs::exists(dir.path() + "/jobspec"));
    CHECK(fs::is_directory("models/deep"));
    write(dir.path() + "/worker-0.log");
    write(dir.path() + "/summary.json");
  }
  CHECK_FALSE(fs::exists("runs"));
  CHECK_FALSE(fs::exists("models"));
  { const RunDir dir = must(RunDir::claim(test::lenet({"--run-dir", "a/b"}), std::nullopt)); }
  CHECK_FALSE(fs::exists("a"));
}

TEST_CASE("a failed start keeps files that it has not created", "[role]") {
  const test::InTempDir here;
  fs::create_directories("mine");
  write("mine/notes.txt");
  { const RunDir dir = must(RunDir::claim(test::lenet({"--run-dir", "mine"}), std::nullopt)); }
  CHECK(fs::exists("mine/notes.txt"));
  CHECK_FALSE(fs::exists("mine/jobspec"));
  {
    const RunDir dir = must(RunDir::claim(test::lenet({"--run-dir", "new"}), std::nullopt));
    write("new/notes.txt");
  }
  CHECK(fs::exists("new/notes.txt"));
}

TEST_CASE("the directory of a run that has begun is kept", "[role]") {
  const test::InTempDir here;
  {
    const RunDir dir = must(RunDir::claim(test::lenet({"--run-dir", "a"}), std::nullopt));
    CHECK_FALSE(dir.has_begun());
    begin(dir);
    CHECK(dir.has_begun());
  }
  CHECK(fs::exists("a/jobspec"));
}

TEST_CASE("a directory with another run is refused, or cleared of that run with --overwrite", "[role]") {
  const test::InTempDir here;
  test::leave_run("a", test::lenet({}), 7);
  for (const char* file : {"a/worker-0.log", "a/metrics.jsonl", "a/lenet-symbol.json", "a/lenet-0008.states.new",
                           "a/synset.txt", "a/cudnn-plans-0.json", "a/notes.txt", "a/lenet.txt"}) {
    write(file);
  }
  for (const char* directory : {"a/tensorboard/worker-0", "a/tensorboard/worker-1"}) {
    fs::create_directories(directory);
    write(std::string(directory) + "/events.out.tfevents.1764067200.node7.12");
  }
  write("a/tensorboard/worker-1/notes.txt");
  const std::string error = refused(test::lenet({"--run-dir", "a"}));
  CHECK_THAT(error, Contains("--run-dir a") && Contains("--resume a") && Contains("--overwrite"));
  CHECK(fs::exists("a/lenet-0007.params"));
  {
    const RunDir dir = must(RunDir::claim(test::lenet({"--run-dir", "a", "--overwrite"}), std::nullopt));
    for (const char* file : {"a/worker-0.log", "a/metrics.jsonl", "a/lenet-symbol.json", "a/lenet-0007.params",
                             "a/lenet-0008.states.new", "a/synset.txt", "a/cudnn-plans-0.json"}) {
      CHECK_FALSE(fs::exists(file));
    }
    CHECK(fs::exists("a/notes.txt"));
    CHECK(fs::exists("a/lenet.txt"));
    CHECK_FALSE(fs::exists("a/tensorboard/worker-0"));
    CHECK(std::distance(fs::directory_iterator("a/tensorboard/worker-1"), fs::directory_iterator()) == 1);
  }
  // --load-epoch continues from a checkpoint in that directory.
  test::leave_run("b", test::lenet({}), 7);
  CHECK(RunDir::claim(test::lenet({"--run-dir", "b", "--load-epoch", "7"}), std::nullopt));
}

// Two jobs in one directory would replace each other's checkpoints.
TEST_CASE("the directory of a running job is refused, also with --overwrite and to resume it", "[role]") {
  const test::InTempDir here;
  test::leave_run("a", test::lenet({}), 1);
  const Resumed run{"a", must(job::read_job_spec("a"))};
  {
    const RunDir first = must(RunDir::claim(test::lenet({"--run-dir", "a", "--overwrite"}), std::nullopt));
    test::leave_run("a", test::lenet({}), 7);
    CHECK_THAT(refused(test::lenet({"--run-dir", "a", "--overwrite"})), Contains("--run-dir a: the job in this"));
    CHECK_THAT(refused(test::lenet({"--run-dir", "a"}), run), Contains("--resume a: the job in this"));
    CHECK(fs::exists("a/lenet-0007.params"));
    write("a/metrics.jsonl");
  }
  CHECK(RunDir::claim(test::lenet({"--run-dir", "a"}), run));
  {
    // The launcher of this run is on another host, so that only the lock of worker 0 tells of it.
    const train::RateRequests worker_0 = train::RateRequests::open("a/metrics.jsonl");
    CHECK_THAT(refused(test::lenet({"--run-dir", "a", "--overwrite"})), Contains("still running"));
    CHECK(fs::exists("a/lenet-0007.params"));
  }
  CHECK(RunDir::claim(test::lenet({"--run-dir", "a", "--overwrite"}), std::nullopt));
}

TEST_CASE("a directory that is handed over can be claimed by another process", "[role]") {
  const test::InTempDir here;
  RunDir submitting = must(RunDir::claim(test::lenet({"--run-dir", "a"}), std::nullopt));
  CHECK_FALSE(RunDir::claim(test::lenet({"--run-dir", "a"}), std::nullopt));
  submitting.unlock();
  CHECK(RunDir::claim(test::lenet({"--run-dir", "a"}), std::nullopt));
}

TEST_CASE("a run directory that is a file is refused as such", "[role]") {
  const test::InTempDir here;
  write("a");
  const std::string error = refused(test::lenet({"--run-dir", "a", "--overwrite"}));
  CHECK_THAT(error, Contains("'a'") && Contains("a directory") && !Contains("contains a run"));
  CHECK(must(read_file("a")) == "x");
}

TEST_CASE("a resumed run keeps its JobSpec if the start fails", "[role]") {
  const test::InTempDir here;
  test::leave_run("a", test::lenet({}), 1);
  const std::string before = must(read_file("a/jobspec"));
  const job::Flags flags = test::lenet({"--cpus", "2", "--run-dir", "a"});
  const Resumed run{"a", must(job::read_job_spec("a"))};
  { const RunDir dir = must(RunDir::claim(flags, run)); }
  CHECK(must(read_file("a/jobspec")) == before);
  {
    const RunDir dir = must(RunDir::claim(flags, run));
    begin(dir);
  }
  CHECK(must(job::read_job_spec("a")).remembered.values.at("cpus") == "2");
  CHECK(must(job::read_job_spec("a")).is_complete());
}

TEST_CASE("a path that cannot be written is an error before the first step", "[role]") {
  const test::InTempDir here;
  write("file");
  CHECK_THAT(refused(test::lenet({"--run-dir", "file/run"})), Contains("file/run"));
  CHECK_THAT(refused(test::lenet({"--save-model-prefix", "file/m"})), Contains("'file'"));
  CHECK_FALSE(fs::exists("runs"));
}

TEST_CASE("the processes of a job share the directory that their launcher has claimed", "[role]") {
  const test::InTempDir here;
  const RunDir launcher = must(RunDir::claim(test::lenet({"--run-dir", "a", "-n", "2"}), std::nullopt));
  {
    const job::Flags flags =
        test::lenet({"--run-dir", "a", "--role", "scheduler", "-n", "2", "--save-period", "3", "--port", "0"});
    const RunDir scheduler = must(RunDir::share(flags, std::nullopt));
    job::JobSpec spec = job::requested(flags);
    spec.shares = {{0, 1}, {1, 2}};
    spec.batches = {1, 1};
    must(write_complete_spec(flags, spec, scheduler.path()));
  }
  const job::JobSpec spec = must(job::read_job_spec("a"));
  CHECK(spec.is_complete());
  CHECK(spec.remembered.values.contains("data-dir"));
  CHECK_FALSE(spec.remembered.values.contains("save-period"));  // only the launcher's flags are remembered
}

// Processes that are started by hand fail one after the other, for example because they have no token.
TEST_CASE("a process makes its run directory again that one with a failed start has removed", "[role]") {
  const test::InTempDir here;
  const job::Flags flags = test::lenet({"--run-dir", "a/b", "--role", "worker", "-n", "2", "--scheduler", "h:1"});
  auto failed = std::make_optional(must(RunDir::share(flags, std::nullopt)));
  auto other = std::make_optional(must(RunDir::share(flags, std::nullopt)));
  Log log = Log::silent();
  REQUIRE(failed->open_log(log, "worker-0.log"));
  failed.reset();
  REQUIRE_FALSE(fs::exists("a"));
  REQUIRE(other->open_log(log, "worker-1.log"));
  CHECK(fs::exists("a/b/worker-1.log"));
  other.reset();
  CHECK_FALSE(fs::exists("a"));
}

TEST_CASE("a worker refuses a directory of another run on its host", "[role]") {
  const test::InTempDir here;
  test::leave_run("a", test::lenet({"--wd", "0.3"}), 1);
  const job::Flags flags = test::lenet({"--run-dir", "a"});
  job::JobSpec spec = job::requested(flags);
  CHECK_FALSE(adopt_spec(flags, spec, "a", std::nullopt));
  const Resumed run{"a", must(job::read_job_spec("a"))};
  REQUIRE(adopt_spec(flags, spec, "a", run));
  CHECK(must(job::read_job_spec("a")).flags.optimizer.weight_decay == 1e-4);
}

TEST_CASE("a run is named after its directory", "[role]") {
  CHECK(run_name("runs/lenet-1") == "lenet-1");
  CHECK(run_name("/a/b/") == "b");
  CHECK(run_name(".") == fs::current_path().filename().string());
}
