// A scheduler for one worker that answers on gRPC's threads, over loopback. A test overrides the reactions that it is
// about.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "rpc/channel.h"
#include "rpc/job.h"
#include "rpc/scheduler_service.h"
#include "support/catch.h"

namespace dtrain::rpc::test {

class OneWorkerCalls : public SchedulerCalls {
 protected:
  void on_join(JoinCall* call, const proto::JoinRequest& request, const std::string&) override {
    proto::JoinReply reply;
    reply.set_scheduler(7);
    proto::Node* worker = reply.add_nodes();
    worker->set_role(request.role());
    worker->set_incarnation(request.incarnation());
    call->answer(reply);
  }
  void on_join_cancelled(Incarnation, uint64_t) override {}
  void on_barrier(BarrierCall* call, const proto::BarrierRequest&) override { call->answer({}); }
  void on_barrier_cancelled(Incarnation, uint64_t) override {}
  void on_done(DoneCall* call, const proto::DoneRequest&) override { call->answer({}); }
  void on_describe(DescribeCall* call) override { call->answer({}); }
  void on_leave(LeaveCall* call, const proto::LeaveRequest&) override { call->answer({}); }
  void on_leave_cancelled(uint64_t) override {}
  void on_up(const std::shared_ptr<ControlCall>&, Incarnation, const proto::Up&) override {}
  void on_stream_end(Incarnation, const ControlCall*) override {}
};

// Serves reactions until it is destroyed.
template <class Calls>
class Served final : public Calls {
 public:
  template <class... Arguments>
  explicit Served(Arguments... arguments) : Calls(arguments...), service_(*this, security(), Log::silent()) {
    listener_ = listen({}, security(), Traffic::kControl, Log::silent(), [this](grpc::ServerBuilder& builder) {
                  service_.add_to(builder);
                }).value();
  }
  ~Served() override {
    listener_.shutdown(std::chrono::system_clock::now());
    CHECK(service_.wait_idle());
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  [[nodiscard]] uint16_t port() const { return listener_.port; }

 private:
  SchedulerService service_;
  Listener listener_;
};

}  // namespace dtrain::rpc::test
