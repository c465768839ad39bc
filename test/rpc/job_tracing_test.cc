#include <memory>

#include "rpc/job_tracing.h"

#include "rpc/job.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::rpc;
using namespace dtrain::rpc::test;
using sync::membership::Role;

// Two heartbeats tell a worker's speed. The trace begins after the step that it will have begun when it hears of it.
TEST_CASE("a trace is of steps that no worker has begun", "[trace]") {
  const JobTracing::Clock::time_point start;
  JobTracing tracing(2, nullptr, Log::silent());
  CHECK(tracing.request(3, start).error().message == "no worker is training yet");
  const Member fast{Role::kWorker, 0}, slow{Role::kWorker, 1};
  tracing.hear(fast, 10, 0, start);
  tracing.hear(slow, 10, 0, start);
  tracing.hear(fast, 30, 0, start + 2s);
  tracing.hear(slow, 12, 0, start + 2s);
  const auto trace = tracing.request(3, start + 3s);
  REQUIRE(trace.has_value());
  CHECK(trace->number == 1);
  REQUIRE(trace->first_steps.size() == 1);
  const uint64_t first = trace->first_steps.front();
  CHECK(first >= 30 + 10);
  CHECK(first < 30 + 10 + 30);  // the steps of three seconds
  CHECK(trace->steps == 3);
  CHECK(tracing.request(3, start + 20s).error().message ==
        fmt::format("trace 1 of the steps {} to {} is not finished yet", first, first + 2));
  tracing.hear(fast, 60, 1, start + 21s);
  CHECK(tracing.traced() == 0);
  CHECK_FALSE(tracing.take_news());
  tracing.hear(slow, 60, 1, start + 21s);
  CHECK(tracing.traced() == 1);
  CHECK(tracing.take_news());
  CHECK_FALSE(tracing.take_news());
  REQUIRE(tracing.request(0, start + 22s).has_value());
  CHECK(tracing.trace()->number == 2);
  CHECK(tracing.trace()->steps == telemetry::Tracer::kUsualSteps);
}

TEST_CASE("a trace is of the next steps of each group of workers that wait for each other", "[trace]") {
  const JobTracing::Clock::time_point start;
  JobTracing tracing(4, nullptr, Log::silent());
  tracing.set_groups({0, 1, 0, 1});
  const auto hear = [&](uint32_t rank, uint64_t before, uint64_t now) {
    tracing.hear({Role::kWorker, rank}, before, 0, start);
    tracing.hear({Role::kWorker, rank}, now, 0, start + 1s);
  };
  hear(0, 400, 440);
  hear(1, 100, 110);
  hear(2, 401, 439);
  hear(3, 99, 109);
  const auto first = tracing.request(3, start + 1s)->first_steps;
  REQUIRE(first.size() == 4);
  CHECK(first[0] == first[2]);
  CHECK(first[1] == first[3]);
  CHECK((first[0] > 440 && first[0] < 440 + 3 * 40));
  CHECK((first[1] > 110 && first[1] < 110 + 3 * 10));
}

// Its last steps were fast, but it has validated since: its count of steps has not changed for a minute.
TEST_CASE("a trace begins soon after a worker continues its steps", "[trace]") {
  const JobTracing::Clock::time_point start;
  JobTracing tracing(1, nullptr, Log::silent());
  const Member worker{Role::kWorker, 0};
  tracing.hear(worker, 0, 0, start);
  tracing.hear(worker, 100, 0, start + 1s);
  for (int second = 2; second <= 60; second++) tracing.hear(worker, 100, 0, start + std::chrono::seconds(second));
  CHECK(tracing.request(3, start + 60s)->first_steps.front() < 100 + 4 * 100);
}

TEST_CASE("a trace ends without workers that make no steps, but waits for slow ones", "[trace]") {
  const JobTracing::Clock::time_point start;
  const std::chrono::seconds idle = JobTracing::kIdleMax;
  JobTracing tracing(2, nullptr, Log::silent());
  tracing.set_groups({0, 1});
  const Member hung{Role::kWorker, 0}, slow{Role::kWorker, 1};
  tracing.hear(hung, 5, 0, start);
  tracing.hear(slow, 5, 0, start);
  REQUIRE(tracing.request(3, start).has_value());
  tracing.hear(slow, 6, 0, start + idle);
  tracing.give_up_idle(start + idle);
  CHECK(tracing.traced() == 0);
  // A step takes it 120 s, so it is not idle before it has missed five of them.
  tracing.give_up_idle(start + 5 * idle);
  CHECK(tracing.traced() == 0);
  tracing.hear(hung, 5, 0, start + 5 * idle);
  tracing.hear(slow, 9, 1, start + 5 * idle);
  CHECK(tracing.traced() == 0);
  tracing.give_up_idle(start + 5 * idle);
  CHECK(tracing.traced() == 1);
  CHECK(tracing.request(3, start + 6 * idle)->number == 2);
}

TEST_CASE("signals that reach all processes make one trace", "[trace]") {
  const JobTracing::Clock::time_point start;
  JobTracing tracing(1, nullptr, Log::silent());
  const Member worker{Role::kWorker, 0};
  tracing.hear(worker, 10, 0, start);
  REQUIRE(tracing.request(3, start).has_value());
  tracing.hear(worker, 20, 1, start + 100ms);
  CHECK(tracing.request(3, start + 200ms).error().message == "the last trace was requested less than 5 s ago");
  CHECK(tracing.request(100'000, start + 6s)->steps == JobTracing::kStepsMax);
}

// A worker asks, as SIGUSR2 makes it; both workers hear of the trace, and of the scheduler's clock. When both have
// written theirs, the server writes its own.
TEST_CASE("a process asks the scheduler for a trace, and all make it", "[trace]") {
  Job job(settings(2, 1));
  std::vector<std::unique_ptr<telemetry::Tracer>> tracers;
  std::vector<std::future<Result<JoinReply>>> joins;
  for (uint32_t i = 0; i < 3; i++) {
    Process& process = job.add(i < 2 ? Role::kWorker : Role::kServer);
    process.options.tracer = tracers.emplace_back(std::make_unique<telemetry::Tracer>(Log::silent())).get();
    process.create();
    joins.push_back(process.join());
  }
  for (auto& join : joins) (void)join.get().value();
  tracers[2]->record_messages();
  const auto until = [](const auto& holds) {
    const auto end = JobTracing::Clock::now() + kPatience;
    while (!holds() && JobTracing::Clock::now() < end) std::this_thread::yield();
    return holds();
  };
  REQUIRE(until([&] { return job.scheduler->pulses().size() == 3; }));
  const auto ask = [&] {
    std::promise<Result<telemetry::TraceRequest>> answer;
    job.scheduler->request_trace(2, [&](const auto& trace) { answer.set_value(trace); });
    return answer.get_future().get();
  };
  job[0].client->request_trace(2);
  REQUIRE(until([&] { return tracers[0]->is_wanted() && tracers[1]->is_wanted() && tracers[2]->is_wanted(); }));
  CHECK(ask().error().message.starts_with("trace 1 of the steps "));
  for (int worker : {0, 1}) {
    CHECK(tracers[2]->written() == 0);
    for (uint64_t step = 0; step < 20; step++) {
      tracers[worker]->begin_step(step);
      tracers[worker]->forward_done(step);
    }
    CHECK(tracers[worker]->written() == 1);
    CHECK(tracers[worker]->clock().estimate().has_value());
  }
  CHECK(until([&] { return tracers[2]->written() == 1; }));
  for (const auto& process : job.processes) process->client->done({});
}
