// Processes of all roles are killed (-9) or stopped (SIGSTOP) at drawn moments, many in each job: one server or both, a
// server while another one is being replaced, a server together with a worker or with the scheduler, or while a worker
// joins, and the scheduler alone. What must hold: the job trains to its end with the workers that it has, and a
// deterministic one ends with the bits of one in which nothing was lost.

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>
#include <optional>

#include "base/random.h"
#include "cluster/changing_job.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/drawn_seeds.h"
#include "support/process_of_job.h"
#include "support/text.h"

using namespace dtrain;
using namespace dtrain::test;
using dtrain::test::contains;

namespace {

constexpr std::array kKinds = {"dist_sync --deterministic 1",
                               "dist_async",
                               "dist_sync --cpus 2",
                               "dist_ssync --staleness 2",
                               "dist_gsync --groups-file groups",
                               "dist_sync --deterministic 1 --cpus 2",
                               "dist_sync --backup 1"};
constexpr std::array kPolicies = {"fail", "wait", "shrink"};

enum class Event : uint8_t {
  kServer,
  kServers,
  kServerInRestore,
  kServerAndWorker,
  kServerAndScheduler,
  kScheduler,
  kServerWhileJoining
};
constexpr std::array kEventNames = {"server",
                                    "two servers",
                                    "server in a restore",
                                    "server and worker",
                                    "server and scheduler",
                                    "scheduler",
                                    "server while a worker joins"};
using Table = std::array<int, kEventNames.size()>;

class BesetJob {
 public:
  // `takes_more`: whether workers may join.
  BesetJob(const ChangingJobs& jobs, std::string run_dir, std::string policy, bool takes_more, uint64_t seed)
      : jobs_(jobs),
        run_dir_(std::move(run_dir)),
        policy_(std::move(policy)),
        takes_more_(takes_more),
        random_(seed, Use::kFaults, 400),
        launcher_(jobs.command(run_dir_,
                               flags(jobs, takes_more ? "--inject step-ms=15 --max-workers 4" : "--inject step-ms=15")),
                  jobs.options()) {}

  static std::vector<std::string> flags(const ChangingJobs& jobs, const char* more) {
    return command_line("--snapshot-every 7 --max-restarts 99 --num-epochs 30 --state-dir", jobs.path("state-dir"),
                        more);
  }

  Ended run(Table& came) {
    if (launcher_.wait_for_output("Epoch[0] Batch [", kRunSeconds)) {
      pause(0.5);
      for (int i = 0; i < kEvents && launcher_.running(); i++) {
        const auto event = static_cast<Event>(random_.below(static_cast<int64_t>(kEventNames.size())));
        came[static_cast<size_t>(event)] += strike(event);
        pause(random_.uniform(0.3, 2.5));
      }
    }
    const Ended end = launcher_.wait(kRunSeconds);
    if (joiner_) joiner_end_ = joiner_->wait(kGrace);
    return end;
  }
  // Whether a worker that has joined did not end.
  [[nodiscard]] bool joiner_hangs() const { return joiner_end_ && joiner_end_->timed_out; }
  [[nodiscard]] std::string joiners_output() const { return joiner_end_ ? joiner_end_->output : ""; }

 private:
  static constexpr int kEvents = 6;
  static constexpr double kGrace = 40;  // --scheduler-grace, for which a worker that joins looks for the job, and noise

  void pause(double seconds) { launcher_.wait_for_output("no process prints this", seconds); }

  // Returns the number of processes that were killed or stopped.
  int strike(Event event) {
    const auto server = static_cast<uint64_t>(random_.below(2));
    switch (event) {
      case Event::kServer: return hit("server", server, true);
      case Event::kServers: return hit("server", 0, false) + hit("server", 1, false);
      case Event::kServerInRestore: {
        const int first = hit("server", server, false);
        pause(random_.uniform(0.05, 1));
        return first + hit("server", static_cast<uint64_t>(random_.below(2)), false);
      }
      case Event::kServerAndWorker: {
        // Under `shrink` the job must keep some workers, so a worker is only lost if another one takes its place.
        const int first = policy_ == "wait" ? hit("worker", static_cast<uint64_t>(random_.below(3)), false) : 0;
        return first + hit("server", server, false);
      }
      case Event::kServerAndScheduler: return hit("server", server, false) + hit("scheduler", 0, false);
      case Event::kScheduler: return hit("scheduler", 0, true);
      case Event::kServerWhileJoining: {
        if (takes_more_ && !joiner_) {
          joiner_ = std::make_unique<Process>(command_line(dtrain_program(), "join --rank 3"), jobs_.options());
          pause(random_.uniform(0.1, 1.2));
        }
        return hit("server", server, false);
      }
    }
    return 0;
  }

  // Kills the process or, sometimes, stops it for a while: for less than the heartbeat timeout, or for more. Returns 0
  // if there is no such process at this moment.
  int hit(const std::string& role, uint64_t rank, bool may_stop) {
    const pid_t victim = process_of_job(jobs_.path(run_dir_), role, rank);
    if (victim == 0) return 0;
    if (!may_stop || random_.below(3) > 0) return ::kill(victim, SIGKILL) == 0 ? 1 : 0;
    if (::kill(victim, SIGSTOP) != 0) return 0;
    pause(random_.below(2) == 0 ? random_.uniform(0.2, 2) : random_.uniform(4, 6));
    ::kill(victim, SIGCONT);
    return 1;
  }

  const ChangingJobs& jobs_;
  const std::string run_dir_;
  const std::string policy_;
  const bool takes_more_;
  RandomStream random_;
  Process launcher_;
  std::unique_ptr<Process> joiner_;  // the first one
  std::optional<Ended> joiner_end_;
};

bool have_same_bits(const ChangingJobs& jobs, const std::string& one, const std::string& other) {
  for (const char* file : {"/lenet-0030.params", "/lenet-0030.states"}) {
    const std::string bytes = jobs.text_of(one + file);
    if (bytes.empty() || bytes != jobs.text_of(other + file)) return false;
  }
  return true;
}

}  // namespace

// DTRAIN_ROLE_SEEDS=1-60 runs sixty jobs.
TEST_CASE("jobs train to their end although processes of all roles are lost again and again", "[roles]") {
  DrawnSeeds seeds = drawn_seeds("DTRAIN_KILL_SEEDS");
  seeds.last = seeds.first;
  seeds = drawn_seeds("DTRAIN_ROLE_SEEDS", seeds);
  Table came{};
  for (uint64_t seed = seeds.first; seed <= seeds.last; seed++) {
    const std::string kind = kKinds[seed % kKinds.size()];
    const bool is_deterministic = contains(kind, "--deterministic");
    const std::string policy = kPolicies[seed / kKinds.size() % (is_deterministic ? 2 : kPolicies.size())];
    INFO("seed " << seed << ": " << kind << ", " << policy);
    const ChangingJobs jobs(policy, command_line("--kv-store", kind.c_str()));
    BesetJob job(jobs, "run", policy, !is_deterministic && policy != "fail", seed);
    const Ended end = job.run(came);
    INFO(end.output << "\n" << job.joiners_output());
    CHECK_FALSE(job.joiner_hangs());
    CHECK(end.code == 0);
    CHECK_FALSE(end.timed_out);
    CHECK(left_over(jobs.path("run")).empty());
    if (!is_deterministic || end.code != 0) continue;
    REQUIRE(jobs.run("calm", BesetJob::flags(jobs, "")).code == 0);
    CHECK(have_same_bits(jobs, "run", "calm"));
  }
  std::string text;
  for (size_t event = 0; event < came.size(); event++) {
    text += std::string(text.empty() ? "" : ", ") + kEventNames[event] + " " + std::to_string(came[event]);
  }
  WARN("seeds " << seeds.first << " to " << seeds.last << ": processes hit by event: " << text);
  if (seeds.last - seeds.first >= 50) CHECK(std::ranges::all_of(came, [](int count) { return count > 0; }));
}
