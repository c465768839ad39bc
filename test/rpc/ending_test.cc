// How a running job meets at barriers, ends and fails: the scheduler's service and its clients, through real calls.

#include <atomic>

#include "rpc/job.h"
#include "rpc/one_worker_scheduler.h"
#include "rpc/running_job.h"
#include "support/catch.h"
#include "support/patience.h"

namespace dtrain::rpc::test {

using Catch::Contains;
using dtrain::test::await;

TEST_CASE("each barrier adds the workers' numbers in rank order", "[rpc]") {
  Job job(settings(3, 1));
  job.start(3, 1);
  // Added in the order of ranks, (1e16 + 1) - 1e16 gives another sum than in other orders.
  const std::vector<std::vector<double>> values = {{1e16, 1}, {1, 2}, {-1e16, 3}};
  std::vector<std::future<std::vector<double>>> sums;
  for (size_t rank = 3; rank-- > 0;) {
    sums.push_back(std::async(std::launch::async, [&job, &values, rank] {
      std::vector<double> last;
      for (int i = 0; i < 20; i++) last = job[rank].client->sum("loss", values[rank]).value();
      const std::vector<double> empty = job[rank].client->sum("empty", {}).value();
      last.insert(last.end(), empty.begin(), empty.end());
      return last;
    }));
  }
  for (auto& sum : sums) CHECK(within(std::move(sum)) == std::vector<double>{(1e16 + 1) - 1e16, 6});
}

TEST_CASE("servers and the scheduler end without an error once all workers are done", "[rpc]") {
  Job job(settings(2, 1));
  job.start(2, 1);
  auto finished = std::async(std::launch::async, [&] { return finish_of(*job[2].client); });
  job[0].client->done({});
  job[1].client->done({});
  CHECK(within(std::move(finished)).has_value());
  job[2].client->done({});
  const auto outcome = job.scheduler->wait(kPatience);
  REQUIRE(outcome.has_value());
  CHECK(outcome->has_value());
}

TEST_CASE("a server that fails stops waiting, and every process learns why", "[rpc]") {
  Job job(settings(2, 1));
  job.start(2, 1);
  auto finished = std::async(std::launch::async, [&] { return finish_of(*job[2].client); });
  const Error cause{Code::kDevice, "not enough memory for a gradient", {}};
  job[2].client->fail_with(cause);
  job[2].client->fail_with({Code::kInternal, "a later failure", {}});
  const Result<> outcome = within(std::move(finished));
  REQUIRE_FALSE(outcome.has_value());
  CHECK(outcome.error().message == cause.message);
  job[2].client->done(outcome);
  for (const size_t worker : {0, 1}) {
    const Error seen = within(job[worker].failed.get_future());
    CHECK(seen.code == Code::kDevice);
    CHECK(seen.message == "server 0 failed: not enough memory for a gradient");
  }
}

TEST_CASE("a worker's failure reaches every process with its code and ends open barriers", "[rpc]") {
  Job job(settings(2, 1));
  job.start(2, 1);
  auto sum = std::async(std::launch::async, [&] { return job[0].client->sum("epoch", {}); });
  job[1].client->done(fail(Code::kData, "record 7 is broken"));
  const Result<std::vector<double>> result = within(std::move(sum));
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == Code::kData);
  CHECK(result.error().message == "worker 1 failed: record 7 is broken");
  const Error at_server = within(job[2].failed.get_future());
  CHECK(at_server.code == Code::kData);
  CHECK_FALSE(finish_of(*job[2].client).has_value());
  CHECK(within(job[0].failed.get_future()).code == Code::kData);
  CHECK_FALSE(job[0].client->may_begin(5).has_value());
  job[0].client->done(tl::unexpected(result.error()));
  job[2].client->done(tl::unexpected(at_server));
  const auto outcome = job.scheduler->wait(kPatience);
  REQUIRE(outcome.has_value());
  CHECK(outcome->error().code == Code::kData);
}

// The process vanishes without a Done call: its connection closes, and it does not reconnect.
TEST_CASE("all processes are told in time which process vanished", "[rpc]") {
  Job job(settings(2, 1));
  job.start(2, 1);
  dtrain::test::await([&] { return job.scheduler->pulses().size() >= 3; });
  job.processes[1]->client.reset();
  const Error at_worker = within(job[0].failed.get_future());
  CHECK(at_worker.code == Code::kPeerLost);
  CHECK_THAT(at_worker.message, Contains("worker 1 was lost"));
  CHECK(within(job[2].failed.get_future()).message == at_worker.message);
  CHECK(job.scheduler->wait(kPatience)->error().code == Code::kPeerLost);
  const std::vector<MemberPulse> pulses = job.scheduler->pulses();
  REQUIRE(pulses.size() == 3);
  for (const MemberPulse& one : pulses) CHECK(one.is_lost == (one.member == Member{Role::kWorker, 1}));
}

TEST_CASE("all processes are told which process sends no heartbeats", "[rpc]") {
  auto impatient = settings(2, 0);
  impatient.heartbeat_timeout_ms = 1'000;
  Job job(impatient);
  Process& slow = job.add(Role::kWorker);
  slow.options.heartbeat_interval = 1h;
  slow.options.heartbeat_timeout = 1h;
  slow.create();
  Process& healthy = job.add(Role::kWorker);
  auto slow_join = slow.join();
  within(healthy.join()).value();
  within(std::move(slow_join)).value();
  const Error error = within(healthy.failed.get_future());
  CHECK(error.code == Code::kPeerLost);
  CHECK_THAT(error.message, Contains("was lost: silent for"));
}

TEST_CASE("a lost scheduler is an error after the grace period", "[rpc]") {
  Job job(settings(1, 1));
  job.start(1, 1);
  const auto begin = std::chrono::steady_clock::now();
  job.scheduler.reset();
  const Error error = within(job[0].failed.get_future());
  CHECK(error.code == Code::kSchedulerLost);
  CHECK(std::chrono::steady_clock::now() - begin >= 400ms);
  CHECK(within(job[1].failed.get_future()).code == Code::kSchedulerLost);
  CHECK_FALSE(job[0].client->sum("late", {}).has_value());
}

// Workers whose steps are one barrier each. One of them asks to stop.
TEST_CASE("after a stop request all workers end before the same step, and then the servers", "[rpc]") {
  Job job(settings(3, 1));
  job.start(3, 1);
  std::vector<std::future<uint64_t>> steps;
  for (size_t rank = 0; rank < 3; rank++) {
    steps.push_back(std::async(std::launch::async, [&job, rank] {
      uint64_t step = 0;
      while (job[rank].client->may_begin(step).value()) {
        (void)job[rank].client->sum("step", {}).value();
        step++;
        if (rank == 1 && step == 20) job[rank].client->request_stop();
      }
      job[rank].client->done(fail(Code::kPreempted, "stopped"));
      return step;
    }));
  }
  const uint64_t first = within(std::move(steps[0]));
  CHECK(first >= 20);
  CHECK(within(std::move(steps[1])) == first);
  CHECK(within(std::move(steps[2])) == first);
  const Result<> server = finish_of(*job[3].client);
  REQUIRE_FALSE(server.has_value());
  CHECK(server.error().code == Code::kPreempted);
  job[3].client->done(server);
  CHECK(job.scheduler->wait(kPatience)->error().code == Code::kPreempted);
}

// Three workers that do not wait for each other: one is at the barrier of an epoch's end, and another is far ahead of
// the one that asks to stop. All meet at one barrier, whose sums say that a worker stops.
TEST_CASE("after a stop request each asynchronous worker ends after its own number of steps", "[rpc]") {
  Job job(settings(3, 0), security(), {0, 1, 2});
  job.start(3, 0);
  const auto begin_steps = [&job](size_t rank, uint64_t steps) {
    for (uint64_t step = 0; step < steps; step++) REQUIRE(job[rank].client->may_begin(step).value());
  };
  const auto meet = [&job](size_t rank, bool stopping) {
    const std::vector<double> own = {stopping ? 1.0 : 0.0, static_cast<double>(rank)};
    const std::vector<double> sums = job[rank].client->sum("the end of an epoch or of the job", own).value();
    job[rank].client->done(fail(Code::kPreempted, "stopped"));
    return sums;
  };
  begin_steps(0, 7);
  begin_steps(1, 40);
  begin_steps(2, 3);
  auto at_epochs_end = std::async(std::launch::async, [&] { return meet(0, false); });
  dtrain::test::await([&] { return !job[0].waits.open().empty(); });
  job[2].client->request_stop();
  std::vector<std::future<std::vector<double>>> others;
  for (const size_t rank : {1, 2}) {
    others.push_back(std::async(std::launch::async, [&job, &meet, rank] {
      uint64_t step = rank == 1 ? 40 : 3;
      while (job[rank].client->may_begin(step).value()) step++;
      return meet(rank, true);
    }));
  }
  for (auto& other : others) CHECK(within(std::move(other)) == std::vector<double>{2, 3});
  CHECK(within(std::move(at_epochs_end)) == std::vector<double>{2, 3});
  const auto outcome = job.scheduler->wait(kPatience);
  REQUIRE(outcome.has_value());
  CHECK(outcome->error().code == Code::kPreempted);
}

TEST_CASE("heartbeats report progress and the oldest wait to the scheduler", "[rpc]") {
  Job job(settings(1, 0));
  job.start(1, 0);
  const Waits::Wait wait(job[0].waits, [] { return std::string("key 12 on server 1"); });
  job[0].client->report({.step = 418, .samples_per_s = 1234.5});
  Pulse pulse;
  // A heartbeat does not wait for the list of waits, so the first one with the progress may have none yet.
  dtrain::test::await([&] {
    for (const MemberPulse& one : job.scheduler->pulses()) pulse = one.pulse;
    return pulse.progress.step == 418 && !pulse.wait.empty();
  });
  CHECK(pulse.progress.samples_per_s == 1234.5);
  CHECK(pulse.wait == "key 12 on server 1");
}

// No heartbeat comes between the last report and the end.
TEST_CASE("the goodbye of a process has its last report", "[rpc]") {
  Job job(settings(1, 0));
  Process& worker = job.add(Role::kWorker);
  worker.options.heartbeat_interval = 1h;
  worker.create();
  REQUIRE(within(worker.join()).has_value());
  worker.client->report({.step = 419});
  worker.client->done({});
  REQUIRE(job.scheduler->wait(kPatience).has_value());
  REQUIRE(job.scheduler->pulses().size() == 1);
  CHECK(job.scheduler->pulses().front().pulse.progress.step == 419);
}

TEST_CASE("a worker leaves on request, and the others continue without it", "[rpc]") {
  sync::membership::Settings its = settings(3, 1);
  its.on_worker_loss = sync::membership::OnWorkerLoss::kShrink;
  Job job(its);
  job.start(3, 1);
  std::vector<std::future<Result<>>> begun;
  for (size_t i = 0; i < 3; i++) {
    begun.push_back(std::async(std::launch::async, [&job, i] { return job[i].client->begin_training(0); }));
  }
  for (auto& one : begun) REQUIRE(within(std::move(one)));
  const net::Endpoint scheduler{"127.0.0.1", job.scheduler->port()};

  CHECK(leave(scheduler, {.token = "wrong", .build_id = "build-1", .tls = {}}, 1).error().code == Code::kDenied);
  const Result<std::string> unknown = leave(scheduler, security(), 7);
  CHECK(unknown.error().code == Code::kUsage);
  CHECK(unknown.error().message == "worker 7 does not take part in the job now");

  const auto may_begin = [&](size_t i) { return job[i].client->may_begin(0).value(); };
  std::future<Result<std::string>> asked;
  SECTION("by a command") {
    asked = std::async(std::launch::async, [&] { return leave(scheduler, security(), 1); });
  }
  SECTION("by a signal") {
    job[1].client->request_leave();
  }
  await([&] { return !may_begin(1); });
  CHECK(job[1].client->leaves());
  CHECK(may_begin(0));
  CHECK_FALSE(job[0].client->leaves());
  job[1].client->done({});
  if (asked.valid()) CHECK(within(std::move(asked)).value() == "here");

  // The server hears of it, and no barrier waits for the worker.
  CHECK_FALSE(job[3].client->wait_view().value()->workers[1].is_live());
  auto sum = std::async(std::launch::async, [&] { return job[0].client->sum("the end", std::array{1.0}); });
  CHECK(job[2].client->sum("the end", std::array{2.0}).value() == std::vector<double>{3});
  CHECK(within(std::move(sum)));
  CHECK(job[2].client->live() == std::vector<uint32_t>{0, 2});
  for (const MemberPulse& one : job.scheduler->pulses())
    CHECK(one.has_left == (one.member == Member{Role::kWorker, 1}));
  for (const size_t i : {0, 2}) job[i].client->done({});
  CHECK(finish_of(*job[3].client));
  job[3].client->done({});
  CHECK(within(std::async(std::launch::async, [&] { return *job.scheduler->wait(kPatience); })));
}

namespace {

// A scheduler that does not answer the first calls, as one that is killed and started again.
class AbsentCalls : public OneWorkerCalls {
 public:
  std::atomic<int> calls = 0;

 protected:
  void on_describe(DescribeCall* call) override {
    if (calls++ < 2) return call->refuse({grpc::StatusCode::UNAVAILABLE, "connection reset"});
    proto::JobDescription reply;
    reply.set_job("network = lenet");
    reply.set_run_dir("/runs/a");
    call->answer(reply);
  }
  void on_stream(const std::shared_ptr<ControlCall>&, const proto::Hello&) override {}
};

}  // namespace

TEST_CASE("whoever asks for the job's description waits for a scheduler that comes back", "[rpc]") {
  Served<AbsentCalls> served;
  const net::Endpoint scheduler{"127.0.0.1", served.port()};
  int waits = 0;
  Patience patience{.limit = kPatience, .on_wait = [&] { waits++; }};
  const Result<JobDescription> found = describe_job(scheduler, security(), patience);
  REQUIRE(found);
  CHECK(found->job == "network = lenet");
  CHECK(found->run_dir == "/runs/a");
  CHECK(served.calls == 3);
  CHECK(waits == 1);
  CHECK(describe_job(scheduler, {.token = "wrong", .build_id = "build-1", .tls = {}}, patience).error().code ==
        Code::kDenied);
  CHECK(waits == 1);
}

TEST_CASE("whoever asks for a job's description where no scheduler is gets an answer in time", "[rpc]") {
  net::Endpoint nobody{"127.0.0.1", 0};
  {
    const Served<AbsentCalls> served;
    nobody.port = served.port();
  }
  const Result<JobDescription> none = describe_job(nobody, security(), {.limit = 300ms});
  CHECK(none.error().code == Code::kStartup);
  CHECK_THAT(none.error().message,
             Contains("no answer from the scheduler at " + to_text(nobody)) && Contains("within 0.3 s"));
  Patience patience{.limit = kPatience, .gives_up = [] { return true; }};
  CHECK(describe_job(nobody, security(), patience).error().code == Code::kPreempted);
}

TEST_CASE("whoever waits for a worker to leave hears of the end of the job", "[rpc]") {
  sync::membership::Settings its = settings(2, 1);
  its.on_worker_loss = sync::membership::OnWorkerLoss::kShrink;
  Job job(its);
  job.start(2, 1);
  auto begun = std::async(std::launch::async, [&] { return job[0].client->begin_training(0); });
  REQUIRE(job[1].client->begin_training(0));
  REQUIRE(within(std::move(begun)));
  const net::Endpoint scheduler{"127.0.0.1", job.scheduler->port()};
  auto asked = std::async(std::launch::async, [&] { return leave(scheduler, security(), 1); });
  await([&] { return !job[1].client->may_begin(0).value(); });
  job[0].client->done(fail(Code::kData, "train.rec is damaged"));
  CHECK_FALSE(within(std::move(asked)).has_value());
}

}  // namespace dtrain::rpc::test
