// Kills real processes at moments drawn from a seed. Every survivor must end within the bound and name the lost
// process. The test's own process has no threads and does not use gRPC, so that it can fork.
#include <grpcpp/generic/generic_stub.h>
#include <poll.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/random.h"
#include "rpc/channel.h"
#include "rpc/child.h"
#include "rpc/client_stream.h"
#include "rpc/job.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::rpc::test {
namespace {

using Clock = Child::Clock;

constexpr auto kBound = 8s;  // timeout or grace of 2 s, 2 s for the news, 4 s for a busy host

// Where a scheduler that comes back finds its state, and its port.
struct Return {
  std::string directory;
  uint16_t port = 0;  // 0: it begins the job
};

Result<> run_scheduler(int out, const Return& how = {}) {
  SchedulerOptions options;
  options.security = security();
  options.membership = settings(2, 1);
  options.membership.heartbeat_timeout_ms = 2'000;
  options.listen.port_first = how.port;
  if (!how.directory.empty()) {
    DT_TRY(options.state, StateFile::open({.directory = how.directory, .job = "a", .comes_back = how.port > 0}));
  }
  DT_TRY(const std::unique_ptr<Scheduler> scheduler, Scheduler::start(std::move(options), Log::silent()));
  Child::say(out, std::to_string(scheduler->port()));
  while (true) {
    if (const auto outcome = scheduler->wait(1s)) return *outcome;
  }
}

volatile std::sig_atomic_t asked_to_end = 0;  // set by SIGUSR1; the worker then ends the job with its next step

// Joins, prints that it has joined, and does steps of one barrier each until the job fails or a worker is asked to end.
Result<> run_member(int out, uint16_t port, Role role, uint32_t rank, std::chrono::milliseconds grace) {
  std::signal(SIGUSR1, [](int) { asked_to_end = 1; });
  Process process(port, role);
  process.request.want_rank = rank;
  process.options.heartbeat_timeout = 2s;
  process.options.scheduler_grace = grace;
  process.create();
  DT_TRY_VOID(process.client->join(process.request));
  Result<> outcome;
  if (role == Role::kServer) {
    Child::say(out, "begun");
    outcome = finish_of(*process.client);
  }
  for (uint64_t step = 0; role == Role::kWorker && outcome; step++) {
    if (step == 1) Child::say(out, "begun");
    const double own = asked_to_end;
    const auto sums = process.client->sum("step", {&own, 1});
    if (!sums) outcome = tl::unexpected(sums.error());
    if (sums && sums->front() > 0) break;
  }
  process.client->done(outcome);
  return outcome;
}

struct Cluster {
  explicit Cluster(std::chrono::milliseconds grace = 2s, const std::string& state = "")
      : scheduler(std::make_unique<Child>([state](int out) { return run_scheduler(out, {state}); })) {
    const auto deadline = Clock::now() + kPatience;
    port = static_cast<uint16_t>(std::stoi(scheduler->line(deadline)));
    for (uint32_t i = 0; i < 3; i++) {
      const Role role = i < 2 ? Role::kWorker : Role::kServer;
      members.push_back(std::make_unique<Child>(
          [=, port = port](int out) { return run_member(out, port, role, role == Role::kWorker ? i : 0, grace); }));
    }
    for (auto& member : members) REQUIRE(member->line(deadline) == "begun");
  }
  // Kills the scheduler, and starts another one that continues the job.
  void replace_scheduler(const std::string& state) {
    scheduler->kill(SIGKILL);
    scheduler.reset();
    scheduler = std::make_unique<Child>([state, port = port](int out) { return run_scheduler(out, {state, port}); });
    REQUIRE(scheduler->line(Clock::now() + kPatience) == std::to_string(port));
  }
  std::unique_ptr<Child> scheduler;
  uint16_t port = 0;
  std::vector<std::unique_ptr<Child>> members;  // worker 0, worker 1, server 0
};

// Makes calls with large requests and no token, all at once, and waits until all are refused.
Result<> run_stranger(uint16_t port) {
  constexpr size_t kConnections = 10;
  constexpr size_t kCallsEach = 16;
  const std::string zeros(7 << 20, '\0');
  const grpc::Slice slice(zeros.data(), zeros.size());
  const grpc::ByteBuffer request(&slice, 1);  // shared by all calls
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer reply;
    std::promise<grpc::Status> ended;
  };
  std::vector<std::unique_ptr<Call>> calls;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs;
  for (size_t i = 0; i < kConnections; i++) {
    stubs.push_back(std::make_unique<grpc::GenericStub>(
        make_channel({"127.0.0.1", port}, {.token = "", .build_id = "", .tls = {}}, Traffic::kControl)));
    for (size_t j = 0; j < kCallsEach; j++) {
      Call& call = *calls.emplace_back(std::make_unique<Call>());
      call.context.set_deadline(std::chrono::system_clock::now() + 30s);
      call.context.set_wait_for_ready(true);
      stubs.back()->UnaryCall(&call.context, "/dtrain.proto.Scheduler/Barrier", {}, &request, &call.reply,
                              [&call](const grpc::Status& status) { call.ended.set_value(status); });
    }
  }
  size_t refused = 0;
  for (const auto& call : calls) refused += call->ended.get_future().get().error_code() == grpc::UNAUTHENTICATED;
  if (refused < calls.size()) return fail(Code::kInternal, "{} of {} calls were refused", refused, calls.size());
  return {};
}

// Opens streams without a token, sends a large message on each, and never ends them itself: half of them control
// streams, half of them calls. Waits until the scheduler has refused all.
Result<> run_flood(uint16_t port) {
  using Stream = ClientStream<grpc::ByteBuffer, grpc::ByteBuffer>;
  struct Refused final : Stream::Events {
    explicit Refused(std::promise<grpc::StatusCode>& code) : code_(code) {}
    void on_open(const Stream::Metadata&) override {}
    void on_message(grpc::ByteBuffer&) override {}
    void on_end(const grpc::Status& status) override { code_.set_value(status.error_code()); }
    std::promise<grpc::StatusCode>& code_;
  };
  constexpr size_t kConnections = 8;
  constexpr size_t kStreamsEach = 16;
  constexpr int kRounds = 20;
  const std::string zeros(4 << 20, '\0');
  const grpc::Slice slice(zeros.data(), zeros.size());
  const grpc::ByteBuffer message(&slice, 1);  // shared by all streams
  // Outlive the streams, which set them from gRPC's threads.
  std::vector<std::vector<std::promise<grpc::StatusCode>>> rounds(kRounds);
  Tracker tracker;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs;
  for (size_t i = 0; i < kConnections; i++) {
    stubs.push_back(std::make_unique<grpc::GenericStub>(
        make_channel({"127.0.0.1", port}, {.token = "", .build_id = "", .tls = {}}, Traffic::kControl)));
  }
  size_t refused = 0;
  for (auto& ends : rounds) {
    ends.resize(kConnections * kStreamsEach);
    for (size_t i = 0; i < ends.size(); i++) {
      auto context = std::make_unique<grpc::ClientContext>();
      context->set_deadline(std::chrono::system_clock::now() + 30s);
      context->set_wait_for_ready(true);
      const char* method = i % 2 == 0 ? "/dtrain.proto.Scheduler/Control" : "/dtrain.proto.Scheduler/Barrier";
      const auto stream = Stream::make(tracker, std::move(context), std::make_unique<Refused>(ends[i]),
                                       [&](grpc::ClientContext* c, auto* reactor) {
                                         stubs[i % kConnections]->PrepareBidiStreamingCall(c, method, {}, reactor);
                                       });
      stream->start();
      stream->send(message);
    }
    for (auto& end : ends) refused += end.get_future().get() == grpc::UNAUTHENTICATED ? 1 : 0;
  }
  if (!tracker.wait_idle()) return fail(Code::kInternal, "a refused stream did not end");
  const size_t all = kRounds * kConnections * kStreamsEach;
  if (refused < all) return fail(Code::kInternal, "{} of {} streams were refused", refused, all);
  return {};
}

void pause_at_random(uint64_t seed) {
  RandomStream random(seed, Use::kTest);
  // This only makes the moment of the kill random. The test does not depend on what happens meanwhile.
  poll(nullptr, 0, static_cast<int>(random.below(200)));
}

// Runs three strangers beside a job of two workers and a server. The scheduler's memory must stay, and the job must
// end.
void run_job_beside(const std::function<Result<>(uint16_t)>& stranger) {
  Cluster cluster;
  const size_t before = cluster.scheduler->peak_mib();
  std::vector<std::unique_ptr<Child>> strangers;
  for (int i = 0; i < 3; i++) {
    strangers.push_back(std::make_unique<Child>([&](int) { return stranger(cluster.port); }));
  }
  const auto deadline = Clock::now() + kPatience;
  for (auto& one : strangers) CHECK(one->line(deadline) == "well");
  const size_t after = cluster.scheduler->peak_mib();
  INFO(before << " MiB before, at most " << after << " MiB during the calls");
  CHECK(after - before < 100);
  cluster.members[0]->kill(SIGUSR1);
  for (auto& member : cluster.members) CHECK(member->line(deadline) == "well");
  CHECK(cluster.scheduler->line(deadline) == "well");
}

}  // namespace

TEST_CASE("the other processes end in time and name a killed worker or server", "[rpc][cluster]") {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    const size_t victim = seed % 3;
    INFO("seed " << seed);
    Cluster cluster;
    pause_at_random(seed);
    // Some seeds use SIGSTOP, which is like a host that is silent while its connections stay open.
    cluster.members[victim]->kill(seed > 3 ? SIGSTOP : SIGKILL);
    const auto deadline = Clock::now() + kBound;
    const std::string name = victim == 0   ? "worker 0 was lost"
                             : victim == 1 ? "worker 1 was lost"
                                           : "server 0 was lost";
    for (size_t member = 0; member < 3; member++) {
      if (member != victim) CHECK_THAT(cluster.members[member]->line(deadline), Catch::Contains(name));
    }
    CHECK_THAT(cluster.scheduler->line(deadline), Catch::Contains(name));
  }
}

TEST_CASE("all processes end in time and name a killed scheduler", "[rpc][cluster]") {
  for (uint64_t seed = 1; seed <= 4; seed++) {
    INFO("seed " << seed);
    Cluster cluster;
    pause_at_random(seed);
    cluster.scheduler->kill(seed > 2 ? SIGSTOP : SIGKILL);
    const auto deadline = Clock::now() + kBound + 2s;
    for (auto& member : cluster.members) CHECK_THAT(member->line(deadline), Catch::Contains("scheduler lost"));
  }
}

TEST_CASE("a job continues although its scheduler is killed three times", "[rpc][cluster]") {
  for (uint64_t seed = 1; seed <= 5; seed++) {
    INFO("seed " << seed);
    const dtrain::test::TempDir dir;
    Cluster cluster(20s, dir.path());
    for (uint64_t kill = 0; kill < 3; kill++) {
      pause_at_random(3 * seed + kill);
      cluster.replace_scheduler(dir.path());
    }
    cluster.members[0]->kill(SIGUSR1);
    const auto deadline = Clock::now() + kPatience;
    for (auto& member : cluster.members) CHECK(member->line(deadline) == "well");
    CHECK(cluster.scheduler->line(deadline) == "well");
    CHECK_FALSE(std::filesystem::exists(dir.path("scheduler.state")));
  }
}

TEST_CASE("a scheduler that comes back notices that a process is gone", "[rpc][cluster]") {
  const dtrain::test::TempDir dir;
  Cluster cluster(20s, dir.path());
  cluster.members[1]->kill(SIGKILL);
  cluster.replace_scheduler(dir.path());
  const auto deadline = Clock::now() + kPatience;
  for (const size_t member : {0, 2}) {
    CHECK_THAT(cluster.members[member]->line(deadline), Catch::Contains("worker 1 was lost"));
  }
  CHECK_THAT(cluster.scheduler->line(deadline), Catch::Contains("worker 1 was lost"));
}

TEST_CASE("a job ends well although its scheduler was stopped for longer than the heartbeat timeout",
          "[rpc][cluster]") {
  Cluster cluster(20s);
  cluster.scheduler->kill(SIGSTOP);
  poll(nullptr, 0, 3'000);  // the length of the stop is what the test is about
  cluster.scheduler->kill(SIGCONT);
  cluster.members[0]->kill(SIGUSR1);
  const auto deadline = Clock::now() + kPatience;
  for (auto& member : cluster.members) CHECK(member->line(deadline) == "well");
  CHECK(cluster.scheduler->line(deadline) == "well");
}

TEST_CASE("large calls without a token cost the scheduler no memory and the job no heartbeat", "[rpc][cluster]") {
  run_job_beside(run_stranger);  // 160 calls of 7 MiB each
}

TEST_CASE("a flood of control streams and unfinished calls without a token costs no memory and no heartbeat",
          "[rpc][cluster]") {
  run_job_beside(run_flood);
}

}  // namespace dtrain::rpc::test
