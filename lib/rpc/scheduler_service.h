// The scheduler's side of proto/scheduler.proto: checks callers and messages, and passes valid ones on to the object
// that owns the service (scheduler.cc).
#pragma once

#include <grpcpp/server_builder.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "net/refusal_log.h"
#include "rpc/job_types.h"
#include "rpc/pending_call.h"
#include "rpc/security.h"
#include "rpc/server_stream.h"
#include "scheduler.grpc.pb.h"

namespace dtrain::rpc {

using JoinCall = PendingCall<proto::JoinRequest, proto::JoinReply>;
using BarrierCall = PendingCall<proto::BarrierRequest, proto::BarrierReply>;
using DoneCall = PendingCall<proto::DoneRequest, proto::DoneReply>;
using DescribeCall = PendingCall<proto::DescribeRequest, proto::JobDescription>;
using LeaveCall = PendingCall<proto::LeaveRequest, proto::LeaveReply>;
using ControlCall = ServerStream<proto::Down, proto::Up>;

// The interface of the service's owner. gRPC's threads call all methods. Each method posts the work to the owner's
// thread, which answers each call once, and returns.
class SchedulerCalls {
 public:
  virtual ~SchedulerCalls() = default;
  virtual void on_join(JoinCall* call, const proto::JoinRequest& request, const std::string& peer) = 0;
  virtual void on_join_cancelled(Incarnation incarnation, uint64_t call) = 0;
  virtual void on_barrier(BarrierCall* call, const proto::BarrierRequest& request) = 0;
  virtual void on_barrier_cancelled(Incarnation incarnation, uint64_t call) = 0;
  virtual void on_done(DoneCall* call, const proto::DoneRequest& request) = 0;
  virtual void on_describe(DescribeCall* call) = 0;
  virtual void on_leave(LeaveCall* call, const proto::LeaveRequest& request) = 0;
  virtual void on_leave_cancelled(uint64_t call) = 0;
  virtual void on_stream(const std::shared_ptr<ControlCall>& stream, const proto::Hello& hello) = 0;
  virtual void on_up(const std::shared_ptr<ControlCall>& stream, Incarnation incarnation, const proto::Up& up) = 0;
  virtual void on_stream_end(Incarnation incarnation, const ControlCall* stream) = 0;
};

// The generated service handles only the stream. The other methods are marked generic, because gRPC would otherwise
// read their requests before it asks for a reactor.
using ControlService = proto::Scheduler::WithGenericMethod_Join<
    proto::Scheduler::WithGenericMethod_Barrier<proto::Scheduler::WithGenericMethod_Done<
        proto::Scheduler::WithGenericMethod_Describe<proto::Scheduler::WithGenericMethod_Leave<
            proto::Scheduler::WithCallbackMethod_Control<proto::Scheduler::Service>>>>>>;

// Checks the metadata of every call before it reads anything else.
class SchedulerService final : private ControlService, private grpc::CallbackGenericService {
 public:
  SchedulerService(SchedulerCalls& calls, Security security, Log log)
      : calls_(calls), security_(std::move(security)), refusals_(std::move(log)) {}

  void add_to(grpc::ServerBuilder& builder);

  // Refuses every new call from now on, with job_is_over() (rpc/status.h), or if the job continues without this
  // scheduler, in a way that lets the caller try again.
  void close(bool is_job_over) {
    is_job_over_ = is_job_over;
    closed_ = true;
  }
  // To be called after the server's shutdown. Returns true when no call is left, or false if gRPC has not ended all
  // calls within Tracker::kLimit; the remaining ones then have no effect.
  [[nodiscard]] bool wait_idle() { return tracker_.wait_idle(); }

 private:
  grpc::ServerBidiReactor<proto::Up, proto::Down>* Control(grpc::CallbackServerContext* context) override;
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;
  grpc::ServerGenericBidiReactor* open_call(const grpc::GenericCallbackServerContext& context);
  JoinCall* make_join(const std::string& peer);
  BarrierCall* make_barrier();
  DoneCall* make_done();
  DescribeCall* make_describe();
  LeaveCall* make_leave();
  grpc::Status check(const grpc::CallbackServerContext& context);

  SchedulerCalls& calls_;
  Security security_;
  net::RefusalLog refusals_;
  Tracker tracker_;
  std::atomic<uint64_t> next_call_ = 1;
  std::atomic<bool> closed_ = false, is_job_over_ = true;
};

}  // namespace dtrain::rpc
