// Faults between the hosts of a job and on their disks, drawn from a seed: links that are cut and mended, loss and
// delay, a full disk. What must hold: the job continues as long as it has a worker, stops as asked, or ends with an
// error that names the file that cannot be written, and leaves nothing behind.

#include <array>
#include <chrono>
#include <memory>

#include "base/file.h"
#include "base/random.h"
#include "cluster/hosts.h"
#include "cluster/loopback_job.h"
#include "cluster/make_or_skip.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/drawn_seeds.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "support/text.h"

using namespace dtrain;
using namespace dtrain::test;
using dtrain::test::contains;

namespace {

// One server, on host 0, or none, and three workers, each on a host of its own.
constexpr std::array kKinds = {"dist_sync -s 1 --reshare now",
                               "allreduce -s 0",
                               "dist_async -s 1",
                               "dist_ssync -s 1 --staleness 1",
                               "dist_gsync -s 1 --ungrouped own",
                               "dist_sync -s 1 --update-on worker"};
constexpr int kFirstWorker = 1, kWorkers = 3;

class JobOnHosts {
 public:
  JobOnHosts(Hosts& hosts, const TempDir& dir, const std::string& kind, const std::string& policy) {
    std::string places = hosts.address(0) + (contains(kind, "-s 0") ? " spare=1\n" : " role=server\n");
    for (int i = 0; i < kWorkers; i++) places += hosts.address(kFirstWorker + i) + " role=worker\n";
    must(write_file_atomic(dir.path("hosts"), places));
    make_images(dir.path("data"));
    launcher_ = std::make_unique<Process>(
        command_line(
            dtrain_program(), "-n 3 -H", dir.path("hosts"), "--network lenet --data-dir", dir.path("data"),
            "--seed 7 --threads 1 --lr 0.01 --num-epochs 100000 --batch-size 4 --disp-batches 2",
            "--heartbeat-interval 1s --heartbeat-timeout 3s --max-restarts 9 --save-every 0.5s --inject step-ms=20",
            "--model-prefix /tmp/model/net --run-dir", dir.path("run"), "--on-worker-loss", policy, "--kv-store",
            kind.c_str()),
        hosts.options(dir.path()));
  }

  // Whether a worker reports its training again within this time.
  [[nodiscard]] bool trains(double seconds) {
    const size_t before = launcher_->output().size();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < deadline && launcher_->running()) {
      launcher_->wait_for_output("no process prints this", 0.05);
      if (launcher_->output().find("] Batch [", before) != std::string::npos) return true;
    }
    return false;
  }
  void wait(double seconds) { launcher_->wait_for_output("no process prints this", seconds); }
  [[nodiscard]] Process& launcher() { return *launcher_; }

 private:
  std::unique_ptr<Process> launcher_;
};

enum class Fault : uint8_t { kCutLink, kCutHost, kFullDisk };

// Makes one fault of the host, waits, and mends it. Returns what it was.
std::string make_fault(JobOnHosts& job, const Hosts& hosts, int host, bool has_servers, RandomStream& random) {
  const auto fault = static_cast<Fault>(random.below(3));
  // For less than the heartbeat timeout, or for longer.
  const double seconds = random.below(2) == 0 ? random.uniform(0.3, 1.5) : random.uniform(5, 8);
  const std::string duration = ", " + std::to_string(seconds) + " s; ";
  if (fault == Fault::kFullDisk) {
    (void)run(hosts.on(host, {"sh", "-c", "mount -o remount,size=32M /tmp && dd if=/dev/zero of=/tmp/filler bs=64k"}));
    job.wait(seconds);
    (void)run(hosts.on(host, {"rm", "-f", "/tmp/filler"}));
    return "full disk of host " + std::to_string(host) + duration;
  }
  if (fault == Fault::kCutHost) {
    hosts.cut_off(host);
    job.wait(seconds);
    hosts.mend(host);
    return "cut host " + std::to_string(host) + duration;
  }
  const int other = has_servers ? 0 : kFirstWorker + (host - kFirstWorker + 1) % kWorkers;
  hosts.cut_between(host, other);
  job.wait(seconds);
  hosts.mend_between(host, other);
  return "cut between hosts " + std::to_string(host) + " and " + std::to_string(other) + duration;
}

}  // namespace

// DTRAIN_FAULT_SEEDS=1-100 runs a hundred jobs.
TEST_CASE("a job continues while links between its hosts are cut and mended and disks are full", "[hosts-faults]") {
  const DrawnSeeds seeds = drawn_seeds("DTRAIN_FAULT_SEEDS", drawn_seeds("DTRAIN_KILL_SEEDS"));
  for (uint64_t seed = seeds.first; seed <= seeds.last; seed++) {
    const auto hosts = make_or_skip<Hosts>(kFirstWorker + kWorkers);
    if (hosts == nullptr) return;
    RandomStream random(seed, Use::kFaults, 600);
    std::string why_not;
    std::unique_ptr<Hosts::Link> link;  // loses and delays frames of a host, in some jobs
    if (random.below(3) == 0)
      link = hosts->slow_link(kFirstWorker + static_cast<int>(random.below(kWorkers)), 0.02, 3, why_not);
    const std::string kind = kKinds[seed % kKinds.size()];
    const bool has_servers = contains(kind, "-s 1");
    const std::string policy = random.below(2) == 0 ? "shrink" : "wait";
    const TempDir dir;
    JobOnHosts job(*hosts, dir, kind, policy);
    const bool began = job.trains(kHostsStartSeconds);
    INFO("seed " << seed << ": " << kind << ", " << policy << (link != nullptr ? ", slow link" : "") << "\n"
                 << job.launcher().output());
    REQUIRE(began);
    // Two of the workers meet faults, so one stays.
    const auto spared = static_cast<int>(random.below(kWorkers));
    std::string faults;
    for (int i = 1; i < kWorkers; i++) {
      const int host = kFirstWorker + (spared + i) % kWorkers;
      faults += make_fault(job, *hosts, host, has_servers, random);
      const bool continues = job.trains(20);
      INFO(faults << "now:\n" << job.launcher().output());
      if (contains(job.launcher().output(), "No space left on device")) break;
      REQUIRE(continues);
    }
    job.launcher().signal(SIGTERM);
    const Ended end = job.launcher().wait(kHostsJobSeconds);
    INFO(faults << "at the end:\n" << end.output);
    // A full disk ends the job, because the next worker may write to the same one.
    CHECK(end.code == (contains(end.output, "cannot write '/tmp/model/") ? 7 : 75));
    const bool quiet = hosts->all_quiet(kHostsQuietSeconds);
    INFO(hosts->processes());
    CHECK(quiet);
  }
}
