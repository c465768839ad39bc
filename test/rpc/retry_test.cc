// A process whose connection to the scheduler breaks calls again, whatever gRPC calls the break.
#include <atomic>
#include <memory>

#include "rpc/one_worker_scheduler.h"
#include "rpc/status.h"
#include "support/catch.h"

namespace dtrain::rpc::test {
namespace {

const grpc::Status kBroken{grpc::StatusCode::INTERNAL, "Received RST_STREAM with error code 2"};

// Answers the first calls and streams of each kind as if the connection had broken.
class BreakingCalls : public OneWorkerCalls {
 public:
  std::atomic<int> barriers = 0, dones = 0, streams = 0;                       // that have arrived
  std::atomic<int> broken_barriers = 0, broken_dones = 0, broken_streams = 0;  // so many of them break
  std::atomic<bool> ends_streams = false;                                      // with the words that the job is over
  std::promise<void> all_streams_broke;

 private:
  void on_barrier(BarrierCall* call, const proto::BarrierRequest&) override {
    barriers++ < broken_barriers ? call->refuse(kBroken) : call->answer({});
  }
  void on_done(DoneCall* call, const proto::DoneRequest&) override {
    dones++ < broken_dones ? call->refuse(kBroken) : call->answer({});
  }
  void on_stream(const std::shared_ptr<ControlCall>& stream, const proto::Hello&) override {
    if (ends_streams) return stream->close(job_is_over());
    const int before = streams++;
    if (before < broken_streams) return stream->close(kBroken);
    proto::Down down;
    down.mutable_alive();
    stream->send(std::move(down));
    if (before == broken_streams) all_streams_broke.set_value();
  }
};
using Breaking = Served<BreakingCalls>;

struct JoinedWorker : Process {
  JoinedWorker(const Breaking& scheduler, std::chrono::seconds grace) : Process(scheduler.port(), Role::kWorker) {
    options.scheduler_grace = grace;
    create();
    REQUIRE(within(join()).has_value());
  }
};

}  // namespace

TEST_CASE("a control stream that breaks in the middle of a message is opened again", "[rpc]") {
  Breaking scheduler;
  scheduler.broken_streams = 2;
  JoinedWorker process(scheduler, 20s);
  within(scheduler.all_streams_broke.get_future());
  CHECK(process.client->state().has_value());
  process.client->done({});
}

TEST_CASE("a barrier whose connection breaks is entered again", "[rpc]") {
  Breaking scheduler;
  scheduler.broken_barriers = 2;
  JoinedWorker process(scheduler, 20s);
  CHECK(process.client->sum("step", {}).has_value());
  CHECK(scheduler.barriers == 3);
  process.client->done({});
}

TEST_CASE("a barrier that always fails ends with its error after the grace", "[rpc]") {
  Breaking scheduler;
  scheduler.broken_barriers = 1'000'000;
  Process process(scheduler.port(), Role::kWorker);  // a grace of 0.5 s
  REQUIRE(within(process.join()).has_value());
  const auto sums = process.client->sum("step", {});
  REQUIRE_FALSE(sums.has_value());
  CHECK_THAT(sums.error().message, Catch::Contains("RST_STREAM"));
  CHECK(scheduler.barriers > 1);
  process.client->done(tl::unexpected(sums.error()));
}

TEST_CASE("a process says goodbye until the scheduler has heard it", "[rpc]") {
  Breaking scheduler;
  scheduler.broken_dones = 3;
  JoinedWorker process(scheduler, 20s);
  process.client->done({});
  CHECK(scheduler.dones == 4);
}

TEST_CASE("a process does not wait for a scheduler that has said that the job is over", "[rpc]") {
  Breaking scheduler;
  scheduler.ends_streams = true;
  scheduler.broken_dones = 1'000'000;
  JoinedWorker process(scheduler, 60s);
  auto done = std::async(std::launch::async, [&] { process.client->done({}); });
  within(std::move(done));
  CHECK(scheduler.dones > 1);
}

}  // namespace dtrain::rpc::test
