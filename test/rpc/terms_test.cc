// Schedulers of several terms: one that was replaced ends, and its answers do not count.
#include <atomic>

#include "rpc/channel.h"
#include "rpc/one_worker_scheduler.h"
#include "scheduler.grpc.pb.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::rpc::test {
namespace {

using Catch::Contains;

// A scheduler for one worker whose term goes back from 2 to 1 for some answers.
class GoingBackCalls : public OneWorkerCalls {
 public:
  std::atomic<int> barriers = 0, goodbyes = 0;

 protected:
  void on_join(JoinCall* call, const proto::JoinRequest& request, const std::string&) override {
    proto::JoinReply reply;
    reply.set_scheduler(7);
    reply.set_term(2);
    proto::Node* worker = reply.add_nodes();
    worker->set_role(request.role());
    worker->set_incarnation(request.incarnation());
    call->answer(reply);
  }
  void on_barrier(BarrierCall* call, const proto::BarrierRequest& request) override {
    CHECK(request.term() == 2);
    const bool is_old = barriers++ < 2;
    proto::BarrierReply reply;
    reply.set_term(is_old ? 1 : 2);
    reply.add_sums(is_old ? 1 : 2);
    call->answer(reply);
  }
  void on_done(DoneCall* call, const proto::DoneRequest&) override {
    proto::DoneReply reply;
    reply.set_term(goodbyes++ < 2 ? 1 : 2);
    call->answer(reply);
  }
  void on_stream(const std::shared_ptr<ControlCall>& stream, const proto::Hello& hello) override {
    CHECK(hello.term() == 2);
    proto::Down down;
    down.mutable_alive()->set_term(2);
    stream->send(std::move(down));
  }
};

}  // namespace

TEST_CASE("an answer of a scheduler whose place another one has taken does not count", "[rpc][state]") {
  Served<GoingBackCalls> scheduler;
  Process worker(scheduler.port(), Role::kWorker);
  worker.options.scheduler_grace = 20s;
  worker.create();
  REQUIRE(within(worker.join()));
  const double own = 0;
  CHECK(worker.client->sum("sum", {&own, 1}).value() == std::vector<double>{2});
  CHECK(scheduler.barriers == 3);
  worker.client->done({});
  CHECK(scheduler.goodbyes == 3);
}

TEST_CASE("a scheduler that hears of a later term ends, and does not say that the job is over", "[rpc][state]") {
  const dtrain::test::TempDir dir;
  SchedulerOptions options;
  options.security = security();
  options.membership = settings(1, 0);
  options.state = StateFile::open({.directory = dir.path(), .job = "a"}).value();
  auto scheduler = Scheduler::start(std::move(options), Log::silent()).value();
  Process worker(scheduler->port(), Role::kWorker);
  worker.options.scheduler_grace = 20s;
  worker.create();
  REQUIRE(within(worker.join()));

  const auto channel = make_channel({"127.0.0.1", scheduler->port()}, security(), Traffic::kControl);
  const auto stub = proto::Scheduler::NewStub(channel);
  const auto call = [&](Incarnation incarnation) {
    grpc::ClientContext context;
    sign(context, security());
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    proto::DoneRequest request;
    request.set_incarnation(incarnation);
    request.set_term(2);
    proto::DoneReply reply;
    return stub->Done(&context, request, &reply);
  };
  CHECK(call(12345).ok());  // an unknown process says nothing about this job
  CHECK_FALSE(scheduler->wait(0ms));
  const grpc::Status refused = call(worker.options.incarnation);
  CHECK(refused.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(refused.error_details().empty());  // else it would mean that the job is over
  const auto outcome = scheduler->wait(kPatience);
  REQUIRE(outcome);
  REQUIRE_FALSE(*outcome);
  CHECK(outcome->error().code == Code::kSchedulerLost);
  CHECK_THAT(outcome->error().message, Contains("another scheduler continues this job"));
  scheduler.reset();
  CHECK(worker.client->state());  // it waits for the other one
}

}  // namespace dtrain::rpc::test
