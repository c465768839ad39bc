// What a batch job asks for, and the script that sbatch gets. The script is also run, by bash with stand-ins for the
// launcher and for scontrol.
#include "cluster/slurm_script.h"

#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "job/flags/flags.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/process.h"
#include "support/temp_dir.h"
#include "support/text.h"

namespace dtrain::cluster {
namespace {

using dtrain::test::contains;
using dtrain::test::must;
using dtrain::test::TempDir;

job::Flags flags_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"-n",    "3",           "-s", "2",          "--network",
                                  "lenet", "--benchmark", "1",  "--launcher", "slurm"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return must(job::parse_flags(all, [](const std::string&) { return std::optional<std::string>(); })).flags;
}

Result<BatchRequest> request_of(const std::vector<std::string>& arguments) {
  const job::Flags flags = flags_of(arguments);
  return batch_request(
      {.executable = "/opt/dtrain", .arguments = arguments, .flags = flags, .directory = "/home/u/job 1"},
      {.launcher = "slurm", .run_dir = "/home/u/job 1/run", .checkpoints = "/home/u/job 1/run/lenet"});
}

std::string script_of(const std::vector<std::string>& arguments) {
  return sbatch_script(must(request_of(arguments)), "/home/u/job 1/run/slurm-%j.out");
}

// The options in a script.
std::vector<std::string> options_in(const std::string& script) {
  std::vector<std::string> options;
  for (size_t at = 0; (at = script.find("\n#SBATCH ", at)) != std::string::npos; at++) {
    const size_t begin = at + 9;
    options.push_back(script.substr(begin, script.find('\n', begin) - begin));
  }
  return options;
}

// Runs the script of a job in `dir`, with these lines of bash as the launcher.
class ScriptRun {
 public:
  explicit ScriptRun(const std::string& launcher, const std::string& scontrol = "echo asked for \"$@\"") {
    executable("dtrain", launcher);
    executable("bin/scontrol", scontrol);
    BatchRequest request{.name = "x", .queue = {}};
    request.directory = dir_.path();
    request.network = "lenet";
    request.run_dir = dir_.path("run");
    request.checkpoints = dir_.path("run/lenet");
    request.command = {dir_.path("dtrain"), "--lr", "0.1", "a b"};
    request.at_first = {"--load-epoch", "3"};
    must(write_file_atomic(dir_.path("script"), sbatch_script(request, "out")));
  }
  [[nodiscard]] dtrain::test::Ended run(int restarts) const { return dtrain::test::run(command(), options(restarts)); }
  // Signals the script once the launcher has printed "ready".
  [[nodiscard]] dtrain::test::Ended run_and_signal(int signal) const {
    dtrain::test::Process process(command(), options(0));
    const bool ready = process.wait_for_output("ready", 10);
    process.signal(signal);
    dtrain::test::Ended end = process.wait(10);
    INFO(end.output);
    REQUIRE(ready);
    return end;
  }
  [[nodiscard]] std::string state() const { return read_file(dir_.path("run/slurm-7.state")).value_or("none"); }
  [[nodiscard]] const TempDir& dir() const { return dir_; }

 private:
  void executable(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(dir_.path(name)).parent_path());
    must(write_file_atomic(dir_.path(name), "#!/bin/bash\n" + text + "\n"));
    std::filesystem::permissions(dir_.path(name), std::filesystem::perms::owner_all);
  }
  [[nodiscard]] std::vector<std::string> command() const { return {"bash", dir_.path("script")}; }
  [[nodiscard]] dtrain::test::ProcessOptions options(int restarts) const {
    return {.deadline_s = 20,
            .directory = dir_.path(),
            .environment = {"SLURM_JOB_ID=7", "SLURM_RESTART_COUNT=" + std::to_string(restarts),
                            "PATH=" + dir_.path("bin") + ":/usr/bin:/bin"}};
  }

  TempDir dir_;
};

// A launcher that ends on USR1 or TERM like dtrain, with a checkpoint. (The times of files advance in steps.)
constexpr const char* kStops = R"(trap 'touch -d "+5 seconds" run/lenet-last.params; exit 75' USR1 TERM
sleep 60 & echo ready; wait; exit 9)";

}  // namespace

TEST_CASE("a job asks for a node for each worker or server, and for all of each node", "[cluster][batch]") {
  CHECK(options_in(script_of({})) == std::vector<std::string>{"--job-name=dtrain-lenet", "--nodes=3", "--exclusive",
                                                              "--mem=0", "--signal=B:USR1@120", "--requeue",
                                                              "--open-mode=append",
                                                              "'--output=/home/u/job 1/run/slurm-%j.out'"});
  CHECK(contains(script_of({"--lr", "0.1", "--dry-run"}), "\ncommand=(/opt/dtrain --lr 0.1 --launcher slurm)\n"));
  CHECK(contains(script_of({}), "\ncd '/home/u/job 1' || exit 3\n"));
}

// Processes are placed in turn: servers 0 and 1 on nodes 1 and 2, workers 0, 1 and 2 on nodes 1, 2 and 1.
TEST_CASE("a job asks for what its fullest node carries", "[cluster][batch]") {
  const BatchRequest request = must(request_of({"--nodes",
                                                "2",
                                                "--worker-cores",
                                                "4",
                                                "--server-cores",
                                                "2",
                                                "--worker-memory",
                                                "3G",
                                                "--server-memory",
                                                "500M",
                                                "--gpus",
                                                "0,1",
                                                "--queue",
                                                "long",
                                                "--jobname",
                                                "my job",
                                                "--time-limit",
                                                "90m",
                                                "--submit-option=--account=a b",
                                                "--submit-option=--qos=high"}));
  CHECK(request.node.cores == 4 + 4 + 2);
  CHECK(request.node.memory == (2 * 3072LL + 500) << 20);
  CHECK(request.node.gpus == 4);
  CHECK(must(request_of({"--gpus", "0-3", "--nodes", "3"})).node.gpus == 4);
  CHECK(options_in(sbatch_script(request, "out")) ==
        std::vector<std::string>{"'--job-name=my job'", "--nodes=2", "--partition=long", "--cpus-per-task=10",
                                 "--mem=6644M", "--gres=gpu:4", "--time=90", "--signal=B:USR1@120", "--requeue",
                                 "--open-mode=append", "--output=out", "'--account=a b'", "--qos=high"});
  const BatchRequest some = must(request_of({"--nodes", "1", "--worker-cores", "4", "--server-memory", "1G"}));
  CHECK(some.node.cores == 3 * 4 + 2);         // a server takes at least one core,
  CHECK(some.node.memory == 5 * (1LL << 30));  // and a worker as much memory as a server
}

TEST_CASE("the job is told to stop in time for a checkpoint", "[cluster][batch]") {
  const auto seconds = [](const std::vector<std::string>& arguments) {
    return must(request_of(arguments)).stop_time.count();
  };
  CHECK(seconds({"--time-limit", "1h"}) == 120);
  CHECK(seconds({"--time-limit", "1m"}) == 15);
  CHECK(seconds({"--time-limit", "1h", "--stop-timeout", "300"}) == 300);
  CHECK(seconds({"--time-limit", "10m", "--stop-timeout", "300"}) == 150);
  CHECK(seconds({"--stop-timeout", "10"}) == 120);
}

TEST_CASE("a batch job that could not work is refused before it is submitted", "[cluster][batch]") {
  const auto message = [](const std::vector<std::string>& arguments) {
    const Result<BatchRequest> request = request_of(arguments);
    REQUIRE_FALSE(request.has_value());
    CHECK(request.error().code == Code::kUsage);
    return request.error().message;
  };
  CHECK(contains(message({"--nodes", "6"}), "--nodes 6: the job has only 5 processes (servers and workers)"));
  CHECK(contains(message({"--gpus", "2,3"}), "give --gpus 0,1"));
  CHECK(contains(message({"--launcher", "slurm", "--sync-dst-dir", "/tmp/x"}), "--sync-dst-dir"));
}

TEST_CASE("the script starts a launcher, and resumes when Slurm starts the job again", "[cluster][batch]") {
  const ScriptRun job("echo \"flags: $*\"; exit 4");
  const std::string run = job.dir().path("run");
  dtrain::test::Ended end = job.run(0);
  CHECK(end.code == 4);
  CHECK(end.output == "flags: --lr 0.1 a b --run-dir " + run + " --load-epoch 3\n");
  CHECK(job.state() == "4\n");
  // Without a checkpoint there is nothing to go on from.
  CHECK(job.run(1).output == "flags: --lr 0.1 a b --run-dir " + run + " --load-epoch 3 --overwrite\n");
  must(write_file_atomic(run + "/lenet-0002.params", "x"));
  CHECK(job.run(2).output == "flags: --lr 0.1 a b --run-dir " + run + " --resume " + run + "\n");
}

TEST_CASE("the script puts a job back into the queue that was stopped at its time limit", "[cluster][batch]") {
  const ScriptRun job(kStops);
  const dtrain::test::Ended end = job.run_and_signal(SIGUSR1);
  INFO(end.output);
  CHECK(end.code == 75);
  CHECK(contains(end.output, "asked for requeue 7"));
  CHECK(job.state() == "started\n");  // it has not ended
}

TEST_CASE("a job that is cancelled, refused by Slurm or without a checkpoint is not queued again", "[cluster][batch]") {
  SECTION("cancelled") {
    const ScriptRun job(kStops);
    const dtrain::test::Ended end = job.run_and_signal(SIGTERM);
    CHECK(end.code == 75);
    CHECK_FALSE(contains(end.output, "asked for"));
    CHECK(job.state() == "75\n");
  }
  SECTION("refused") {
    const ScriptRun job(kStops, "echo Requested operation is presently disabled; exit 1");
    const dtrain::test::Ended end = job.run_and_signal(SIGUSR1);
    CHECK(end.code == 75);
    CHECK(contains(end.output, "presently disabled"));
    CHECK(job.state() == "75\n");
  }
  SECTION("without a checkpoint") {
    const ScriptRun job("trap 'exit 75' USR1; sleep 60 & echo ready; wait");
    const dtrain::test::Ended end = job.run_and_signal(SIGUSR1);
    CHECK(end.code == 75);
    CHECK(contains(end.output, "it wrote no checkpoint"));
    CHECK_FALSE(contains(end.output, "asked for"));
  }
  SECTION("a failure near the time limit") {
    const ScriptRun job("trap 'exit 5' USR1; sleep 60 & echo ready; wait");
    CHECK_FALSE(contains(job.run_and_signal(SIGUSR1).output, "asked for"));
    CHECK(job.state() == "5\n");
  }
}

TEST_CASE("the script says which node lacks the executable", "[cluster][batch]") {
  const ScriptRun job("");
  std::filesystem::remove(job.dir().path("dtrain"));
  const dtrain::test::Ended end = job.run(0);
  CHECK(end.code == 3);
  CHECK(contains(end.output, " has no executable '" + job.dir().path("dtrain") + "'"));
}

}  // namespace dtrain::cluster
