// A reaction that runs out of memory ends its call or stream with an error that says so, and no process waits forever.
#include <memory>
#include <new>

#include "rpc/one_worker_scheduler.h"
#include "support/catch.h"

namespace dtrain::rpc::test {
namespace {

using Catch::Contains;

enum class Lacks { kJoin, kBarrier, kStream, kMessage };

// Runs out of memory in one of the reactions.
class ExhaustedCalls : public OneWorkerCalls {
 public:
  explicit ExhaustedCalls(Lacks lacks) : lacks_(lacks) {}

 private:
  void need(Lacks what) const {
    if (what == lacks_) throw std::bad_alloc();
  }
  void on_join(JoinCall* call, const proto::JoinRequest& request, const std::string& address) override {
    need(Lacks::kJoin);
    OneWorkerCalls::on_join(call, request, address);
  }
  void on_barrier(BarrierCall* call, const proto::BarrierRequest& request) override {
    need(Lacks::kBarrier);
    OneWorkerCalls::on_barrier(call, request);
  }
  void on_stream(const std::shared_ptr<ControlCall>&, const proto::Hello&) override { need(Lacks::kStream); }
  void on_up(const std::shared_ptr<ControlCall>&, Incarnation, const proto::Up&) override { need(Lacks::kMessage); }

  Lacks lacks_;
};
using Exhausted = Served<ExhaustedCalls>;

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
