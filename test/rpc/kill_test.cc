// Real processes, killed at seeded moments: every survivor ends within the bound and names who died. The test's own
// process has no threads and no gRPC, so that it can be copied.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>

#include "base/random.h"
#include "rpc/job.h"
#include "rpc/library_log.h"

namespace dtrain::rpc::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kBound = 6s;  // timeout or grace of 2 s, 2 s more by R-F1, and a machine that does other things

// A copy of this process and what it writes: lines.
class Child {
 public:
  template <class Work>
  explicit Child(Work work) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    pid_ = fork();
    if (pid_ == 0) {
      silence_library();
      const Result<> outcome = catching([&] { return work(ends[1]); });
      say(ends[1], outcome ? "well" : outcome.error().text());
      _exit(0);
    }
    close(ends[1]);
    read_ = ends[0];
  }
  ~Child() {
    kill(SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(read_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  static void say(int fd, const std::string& line) {
    const std::string text = line.substr(0, line.find('\n')) + "\n";
    if (write(fd, text.data(), text.size()) < 0) _exit(1);
  }
  void kill(int signal) const { ::kill(pid_, signal); }

  // The next line; empty: none until the deadline.
  std::string line(Clock::time_point deadline) {
    while (text_.find('\n') == std::string::npos) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd ready{.fd = read_, .events = POLLIN, .revents = 0};
      char bytes[512];
      if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) <= 0) return {};
      const ssize_t count = read(read_, bytes, sizeof(bytes));
      if (count <= 0) return {};
      text_.append(bytes, static_cast<size_t>(count));
    }
    const std::string first = text_.substr(0, text_.find('\n'));
    text_.erase(0, first.size() + 1);
    return first;
  }

 private:
  pid_t pid_ = -1;
  int read_ = -1;
  std::string text_;
};

Result<> run_scheduler(int out) {
  SchedulerOptions options;
  options.security = security();
  options.membership = settings(2, 1);
  options.membership.heartbeat_timeout_ms = 2'000;
  DT_TRY(const std::unique_ptr<Scheduler> scheduler, Scheduler::start(std::move(options), Log::silent()));
  Child::say(out, std::to_string(scheduler->port()));
  while (true) {
    if (const auto outcome = scheduler->wait(1s)) return *outcome;
  }
}

// Joins, says so, and does steps that are a barrier each until the job fails.
Result<> run_member(int out, uint16_t port, Role role, uint32_t rank) {
  Process process(port, role);
  process.request.want_rank = rank;
  process.options.heartbeat_timeout = 2s;
  process.options.scheduler_grace = 2s;
  process.create();
  DT_TRY_VOID(process.client->join(process.request));
  Result<> outcome;
  if (role == Role::kServer) {
    Child::say(out, "begun");
    outcome = process.client->wait_finish();
  }
  for (uint64_t step = 0; role == Role::kWorker && outcome; step++) {
    if (step == 1) Child::say(out, "begun");
    const auto sums = process.client->sum("step", {});
    if (!sums) outcome = tl::unexpected(sums.error());
  }
  process.client->done(outcome);
  return outcome;
}

struct Cluster {
  Cluster() : scheduler(run_scheduler) {
    const auto deadline = Clock::now() + 10s;
    const auto port = static_cast<uint16_t>(std::stoi(scheduler.line(deadline)));
    for (uint32_t i = 0; i < 3; i++) {
      const Role role = i < 2 ? Role::kWorker : Role::kServer;
      members.push_back(
          std::make_unique<Child>([=](int out) { return run_member(out, port, role, role == Role::kWorker ? i : 0); }));
    }
    for (auto& member : members) REQUIRE(member->line(deadline) == "begun");
  }
  Child scheduler;
  std::vector<std::unique_ptr<Child>> members;  // worker 0, worker 1, server 0
};

void pause_at_random(uint64_t seed) {
  RandomStream random(seed, Use::kTest);
  // The moment of the kill is the weather, nothing is waited for.
  poll(nullptr, 0, static_cast<int>(random.below(200)));
}

}  // namespace

TEST_CASE("survivors of a killed worker or server end in time and name it", "[rpc][cluster]") {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    const size_t victim = seed % 3;
    INFO("seed " << seed);
    Cluster cluster;
    pause_at_random(seed);
    // SIGSTOP for some: a machine that is silent but whose connections stand.
    cluster.members[victim]->kill(seed > 3 ? SIGSTOP : SIGKILL);
    const auto deadline = Clock::now() + kBound;
    const std::string name = victim == 0   ? "worker 0 was lost"
                             : victim == 1 ? "worker 1 was lost"
                                           : "server 0 was lost";
    for (size_t member = 0; member < 3; member++) {
      if (member != victim) CHECK_THAT(cluster.members[member]->line(deadline), Catch::Contains(name));
    }
    CHECK_THAT(cluster.scheduler.line(deadline), Catch::Contains(name));
  }
}

TEST_CASE("everybody ends in time when the scheduler is killed, and names it", "[rpc][cluster]") {
  for (uint64_t seed = 1; seed <= 4; seed++) {
    INFO("seed " << seed);
    Cluster cluster;
    pause_at_random(seed);
    cluster.scheduler.kill(seed > 2 ? SIGSTOP : SIGKILL);
    const auto deadline = Clock::now() + kBound + 2s;
    for (auto& member : cluster.members) CHECK_THAT(member->line(deadline), Catch::Contains("scheduler lost"));
  }
}

}  // namespace dtrain::rpc::test
