// Jobs that are submitted to a real Slurm (slurm.h) from outside of an allocation.
#include <csignal>
#include <filesystem>
#include <memory>

#include "base/file.h"
#include "cluster/loopback_job.h"
#include "slurm.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/text.h"

using namespace dtrain;
using dtrain::test::contains;
using namespace dtrain::test;

namespace {

constexpr double kBeginSeconds = 90;
constexpr double kEndSeconds = 120;
constexpr double kGoneSeconds = 15;  // in which all processes of an ended job must be gone

using Words = std::vector<std::string>;

// A cluster, and a directory that this host shares with its nodes.
class Site {
 public:
  // Null, with a warning, if this host cannot have a cluster.
  static std::unique_ptr<Site> make() {
    std::string why_not;
    auto site = std::make_unique<Site>();
    site->slurm_ = Slurm::make(3, why_not);
    if (site->slurm_ != nullptr) return site;
    WARN("skipped: " << why_not);
    return nullptr;
  }

  // A job of 3 workers and 2 servers with small steps. The nodes cannot resolve each other's names.
  [[nodiscard]] static Words job(const Words& more) {
    return command_line(dtrain_program(),
                        "-n 3 -s 2 --network lenet --benchmark 1 --num-batches 10 --batch-size 4 --threads 1 "
                        "--seed 7 --deterministic 1 --disp-batches 1",
                        more);
  }
  [[nodiscard]] static Words submitted(const Words& more) {
    return job(command_line("--launcher slurm -i eth0 --run-dir run", more));
  }
  [[nodiscard]] ProcessOptions options() const {
    ProcessOptions options = slurm_->options(dir_.path());
    options.deadline_s = kEndSeconds;
    return options;
  }
  [[nodiscard]] Ended run(const Words& command) const { return test::run(command, options()); }
  // Output of one of Slurm's commands.
  [[nodiscard]] std::string ask(const Words& command) const {
    const Ended end = run(command);
    INFO(end.output);
    REQUIRE(end.code == 0);
    return end.output;
  }
  // The number of the only job.
  [[nodiscard]] std::string number() const {
    const std::string text = ask({"squeue", "--noheader", "--format=%i"});
    return text.substr(0, text.find('\n'));
  }
  [[nodiscard]] bool exists(const std::string& file) const { return std::filesystem::exists(dir_.path(file)); }
  [[nodiscard]] std::string bytes(const std::string& file) const { return read_file(dir_.path(file)).value_or(""); }
  [[nodiscard]] std::string path(const std::string& file) const { return dir_.path(file); }
  Slurm& slurm() { return *slurm_; }

 private:
  TempDir dir_;
  std::unique_ptr<Slurm> slurm_;
};

// Flags of a job that trains until it is stopped.
const Words kLong = {"--num-epochs", "100000", "--inject", "step-ms=50"};

}  // namespace

TEST_CASE("outside of an allocation a job is submitted to Slurm and shown like any other", "[slurm-submit]") {
  const auto site = Site::make();
  if (site == nullptr) return;
  const Ended good = site->run(Site::submitted({"--num-epochs", "1", "--jobname", "a job", "--time-limit", "10m"}));
  INFO(good.output);
  CHECK(good.code == 0);
  CHECK(contains(good.output, " was submitted; its output is in " + site->path("run/slurm-")));
  CHECK(contains(good.output, "[worker 0 node3] "));
  CHECK(contains(good.output, "Epoch[0] Train-accuracy="));
  CHECK(contains(site->bytes("run/slurm.sh"), "#SBATCH --signal=B:USR1@120\n"));
  CHECK((std::filesystem::status(site->path("run/slurm.sh")).permissions() == std::filesystem::perms::owner_all));
  CHECK(site->exists("run/summary.json"));
  CHECK(contains(site->ask({"scontrol", "show", "job"}), "JobName=a job"));
  CHECK(site->slurm().all_quiet(kGoneSeconds));

  const Ended bad = site->run(Site::submitted({"--overwrite", "--inject", "kill=worker:1@step:3"}));
  INFO(bad.output);
  CHECK(bad.code == 5);
  CHECK(contains(bad.output, "worker 1 was killed by signal 9"));
  CHECK(site->slurm().all_quiet(kGoneSeconds));
}

TEST_CASE("stopping a launcher cancels the job that it has submitted to Slurm", "[slurm-submit]") {
  const auto site = Site::make();
  if (site == nullptr) return;
  SECTION("while it waits") {
    CHECK(site->run({"sbatch", "--exclusive", "--nodes=3", "--wrap=sleep 1000"}).code == 0);
    Process job(Site::submitted(kLong), site->options());
    const bool waits = job.wait_for_output("is waiting in partition debug", kBeginSeconds);
    job.signal(SIGINT);
    const Ended end = job.wait(kEndSeconds);
    INFO(end.output);
    REQUIRE(waits);
    CHECK(end.code == 75);
    CHECK(contains(end.output, "was cancelled"));
    CHECK_FALSE(site->exists("run"));
    CHECK(site->run({"scancel", site->number()}).code == 0);  // the other job is the only one
  }
  SECTION("while it runs") {
    Process job(Site::submitted(kLong), site->options());
    const bool trains = job.wait_for_output("Epoch[0] Batch [", kBeginSeconds);
    job.signal(SIGINT);
    const Ended end = job.wait(kEndSeconds);
    INFO(end.output);
    REQUIRE(trains);
    CHECK(end.code == 75);
    CHECK(contains(end.output, "stopped; dtrain --resume "));
    CHECK(site->exists("run/lenet-last.params"));
  }
  CHECK(site->slurm().all_quiet(kGoneSeconds));
}

TEST_CASE("a job that scancel ends leaves a checkpoint, and its launcher says so", "[slurm-submit]") {
  const auto site = Site::make();
  if (site == nullptr) return;
  Process job(Site::submitted(kLong), site->options());
  REQUIRE(job.wait_for_output("Epoch[0] Batch [", kBeginSeconds));
  CHECK(site->run({"scancel", site->number()}).code == 0);
  const Ended end = job.wait(kEndSeconds);
  INFO(end.output);
  CHECK(end.code == 75);
  CHECK(contains(end.output, "dtrain: Slurm ended the job: CANCELLED"));
  CHECK(site->exists("run/lenet-last.params"));
  CHECK(site->slurm().all_quiet(kGoneSeconds));
}

// Slurm sends the signal of --signal only some time before a limit of whole minutes, so the test sends it: USR1, to the
// batch shell alone. Slurm lets a job that is queued again wait for two minutes, which the test shortens.
TEST_CASE("a job that is stopped at its time limit continues to the bytes of an uninterrupted one",
          "[slurm-submit][long]") {
  const auto site = Site::make();
  if (site == nullptr) return;
  const Words flags = {"--num-epochs", "3", "--inject", "step-ms=100"};
  const Ended whole = site->run(Site::job(command_line("--launcher local --run-dir whole", flags)));
  INFO(whole.output);
  REQUIRE(whole.code == 0);

  Process job(Site::submitted(flags), site->options());
  const auto again = [&](const Words& command, const std::string& expected) {
    const std::string number = site->number();
    CHECK(site->run(command_line(command, number)).code == 0);
    await_output(job, expected, kBeginSeconds);
    CHECK(site->run({"scontrol", "update", "JobId=" + number, "StartTime=now"}).code == 0);
  };
  REQUIRE(job.wait_for_output("Epoch[0] Batch [", kBeginSeconds));
  again({"scancel", "--batch", "--signal=USR1"}, "back into the queue (for the first time)");
  // The second time Slurm itself starts the job again, as after the failure of a node.
  const bool resumed = job.wait_for_output("Epoch[1] Batch [3-4]", kBeginSeconds);
  CHECK(contains(job.output(), "note: resuming the run in " + site->path("run")));
  INFO(job.output());
  REQUIRE(resumed);
  again({"scontrol", "requeue"}, "back into the queue (2 times so far)");
  const Ended end = job.wait(kEndSeconds);
  INFO(end.output);
  CHECK(end.code == 0);
  CHECK((site->bytes("run/lenet-0003.params") == site->bytes("whole/lenet-0003.params")));  // not printed
  CHECK_FALSE(site->bytes("run/lenet-0003.params").empty());
  CHECK(site->slurm().all_quiet(kGoneSeconds));
}

TEST_CASE("a job that its launcher may not start again goes back into Slurm's queue", "[slurm-submit][long]") {
  const auto site = Site::make();
  if (site == nullptr) return;
  Process job(Site::submitted({"--num-epochs", "40", "--inject", "step-ms=20", "--max-restarts", "1"}),
              site->options());
  const auto kill_after = [&](const std::string& text) {
    await_output(job, text, kBeginSeconds);
    const pid_t worker = site->slurm().hosts().find_process("--role worker --rank 1");
    REQUIRE(worker > 0);
    REQUIRE(::kill(worker, SIGKILL) == 0);
  };
  kill_after("Saved checkpoint to \"" + site->path("run/lenet-0002.params"));
  kill_after("Saved checkpoint to \"" + site->path("run/lenet-0010.params"));
  await_output(job, "back into the queue (for the first time)", kBeginSeconds);
  CHECK(site->run({"scontrol", "update", "JobId=" + site->number(), "StartTime=now"}).code == 0);
  const Ended end = job.wait(kEndSeconds);
  INFO(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output, "dtrain: restart 1 of 1: all processes start again"));
  CHECK(contains(end.output, "dtrain: the job is queued again, because it failed and --max-restarts allows it"));
  CHECK(site->exists("run/lenet-0040.params"));
  CHECK(site->slurm().all_quiet(kGoneSeconds));
}

TEST_CASE("a job that Slurm does not take is an error in its words, and nothing stays queued", "[slurm-submit]") {
  const auto site = Site::make();
  if (site == nullptr) return;
  const auto fails = [&](const Words& more, int code, const std::string& words, const std::string& variable = "X=1") {
    ProcessOptions options = site->options();
    options.environment.push_back(variable);
    const Ended end = run(Site::submitted(more), options);
    INFO(end.output);
    CHECK(end.code == code);
    CHECK(contains(end.output, words));
    CHECK_FALSE(site->exists("run"));
    CHECK(site->slurm().queue().empty());
  };
  fails({"--queue", "absent"}, 3, "ended with code 1: sbatch: error: invalid partition specified: absent");
  fails({"--queue", "short", "--time-limit", "1h"}, 3,
        "Slurm will not start the job in partition short: PartitionTimeLimit");
  fails({"--worker-memory", "900G"}, 3, "sbatch: error: Memory specification can not be satisfied");
  fails({"--nodes", "6"}, 2, "--nodes 6: the job has only 5 processes (servers and workers)");
  fails({"--image", "a"}, 2, "--image has no effect with --launcher slurm");
  fails({}, 3, "cannot execute 'sbatch': No such file or directory; Slurm's commands must be installed here", "PATH=/");
  site->slurm().end_munge();
  const Ended end = site->run(Site::submitted({}));
  INFO(end.output);
  CHECK(end.code == 3);
  CHECK(contains(end.output, "Munge encode failed"));
  CHECK_FALSE(site->exists("run"));
}
