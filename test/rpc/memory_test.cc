// A reaction that runs out of memory ends its call or stream with an error that says so, and no process waits forever.
#include <memory>
#include <new>

#include "rpc/channel.h"
#include "rpc/job.h"
#include "rpc/scheduler_service.h"
#include "support/catch.h"

namespace dtrain::rpc::test {
namespace {

using Catch::Contains;

enum class Lacks { kJoin, kBarrier, kStream, kMessage };

// A scheduler for one worker that answers on gRPC's threads and runs out of memory in one of its reactions.
class Exhausted final : public SchedulerCalls {
 public:
  explicit Exhausted(Lacks lacks) : lacks_(lacks), service_(*this, security(), Log::silent()) {
    listener_ = listen({}, security(), Traffic::kControl, Log::silent(), [this](grpc::ServerBuilder& builder) {
                  service_.add_to(builder);
                }).value();
  }
  ~Exhausted() override {
    listener_.shutdown(std::chrono::system_clock::now());
    CHECK(service_.wait_idle());
  }
  Exhausted(const Exhausted&) = delete;
  Exhausted& operator=(const Exhausted&) = delete;
  [[nodiscard]] uint16_t port() const { return listener_.port; }

 private:
  void need(Lacks what) const {
    if (what == lacks_) throw std::bad_alloc();
  }
  void on_join(JoinCall* call, const proto::JoinRequest& request, const std::string&) override {
    need(Lacks::kJoin);
    proto::JoinReply reply;
    reply.set_scheduler(7);
    proto::Node* worker = reply.add_nodes();
    worker->set_role(request.role());
    worker->set_incarnation(request.incarnation());
    call->answer(reply);
  }
  void on_join_cancelled(Incarnation, uint64_t) override {}
  void on_barrier(BarrierCall* call, const proto::BarrierRequest&) override {
    need(Lacks::kBarrier);
    call->answer({});
  }
  void on_barrier_cancelled(Incarnation, uint64_t) override {}
  void on_done(DoneCall* call, const proto::DoneRequest&) override { call->answer({}); }
  void on_stream(const std::shared_ptr<ControlCall>&, const proto::Hello&) override { need(Lacks::kStream); }
  void on_up(const std::shared_ptr<ControlCall>&, Incarnation, const proto::Up&) override { need(Lacks::kMessage); }
  void on_stream_end(Incarnation, const ControlCall*) override {}

  Lacks lacks_;
  SchedulerService service_;
  Listener listener_;
};

void check_lack(const Error& error, const std::string& purpose) {
  CHECK(error.code == Code::kDevice);
  CHECK_THAT(error.message, Contains("not enough memory for " + purpose));
}

}  // namespace

TEST_CASE("a call that makes the scheduler run out of memory is refused with that error", "[rpc]") {
  Exhausted scheduler(Lacks::kJoin);
  Process process(scheduler.port(), Role::kWorker);
  const auto reply = within(process.join());
  REQUIRE_FALSE(reply.has_value());
  check_lack(reply.error(), "a call to the scheduler");
}

TEST_CASE("a barrier that makes the scheduler run out of memory is refused with that error", "[rpc]") {
  Exhausted scheduler(Lacks::kBarrier);
  Process process(scheduler.port(), Role::kWorker);
  REQUIRE(within(process.join()).has_value());
  const auto sums = process.client->sum("step", {});
  REQUIRE_FALSE(sums.has_value());
  check_lack(sums.error(), "a call to the scheduler");
}

TEST_CASE("a message that makes the scheduler run out of memory ends the sender with that error", "[rpc]") {
  for (const Lacks lacks : {Lacks::kStream, Lacks::kMessage}) {
    Exhausted scheduler(lacks);
    Process process(scheduler.port(), Role::kWorker);
    std::future<Error> failed = process.failed.get_future();
    REQUIRE(within(process.join()).has_value());
    check_lack(within(std::move(failed)), "a message from a peer");
    process.client->done({});
  }
}

}  // namespace dtrain::rpc::test
