#include "rpc/scheduler_service.h"

#include "job/process/coordinator.h"
#include "rpc/channel.h"
#include "rpc/contribution.h"
#include "rpc/status.h"

namespace dtrain::rpc {
namespace {

constexpr size_t kBarrierNameMax = 200;
constexpr size_t kWorkersMax = 65'535;

grpc::Status malformed(const char* what) {
  return {grpc::StatusCode::INVALID_ARGUMENT, what};
}

// Why the request is not valid; empty if it is.
std::string objection(const proto::BarrierRequest& request) {
  const auto too_long = [](size_t size, const char* what, size_t size_max) {
    return fmt::format("a barrier request has {} {}, more than the limit of {}", size, what, size_max);
  };
  const auto values = static_cast<size_t>(request.values_size());
  const auto stop_sets = static_cast<size_t>(request.stop_set_of_size());
  const size_t bytes = request.contribution().ByteSizeLong();
  if (request.name().size() > kBarrierNameMax)
    return too_long(request.name().size(), "bytes of a name", kBarrierNameMax);
  if (values > job::kSumNumbersMax) return too_long(values, "numbers", job::kSumNumbersMax);
  if (stop_sets > kWorkersMax) return too_long(stop_sets, "workers in stop sets", kWorkersMax);
  if (bytes > job::kContributionBytesMax) return too_long(bytes, "bytes of a message", job::kContributionBytesMax);
  if (request.has_contribution() && (values > 0 || kind_of(request.contribution()).empty())) {
    return "a barrier request must contain numbers or a message of a known kind";
  }
  return "";
}

// Receives the messages of one control stream. The first message is the Hello that identifies the process.
class ControlEvents final : public ControlCall::Events {
 public:
  ControlEvents(SchedulerCalls& calls, Tracker& tracker) : token_(tracker), calls_(calls) {}

  void on_message(ControlCall& stream, proto::Up& up) override {
    if (!token_.run([&] { receive(stream, up); })) stream.close(job_is_over());
  }
  void on_end() override {
    token_.run([this] {
      if (incarnation_ != 0) calls_.on_stream_end(incarnation_, stream_);
    });
  }

 private:
  void receive(ControlCall& stream, proto::Up& up) {
    if (up.has_hello() && incarnation_ == 0 && up.hello().incarnation() != 0) {
      incarnation_ = up.hello().incarnation();
      stream_ = &stream;
      calls_.on_stream(stream.shared(), up.hello());
    } else if (incarnation_ != 0 && !up.has_hello()) {
      calls_.on_up(stream.shared(), incarnation_, up);
    } else {
      stream.close(malformed("a stream must begin with a Hello and contain no other Hello"));
    }
  }

  Tracker::Token token_;
  SchedulerCalls& calls_;
  Incarnation incarnation_ = 0;
  const ControlCall* stream_ = nullptr;
};

// A call that is refused before anything is read from it.
template <class In, class Out>
class RefusedCall final : public grpc::ServerBidiReactor<In, Out> {
 public:
  explicit RefusedCall(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

void SchedulerService::add_to(grpc::ServerBuilder& builder) {
  builder.RegisterService(static_cast<ControlService*>(this));
  builder.RegisterCallbackGenericService(this);
}

grpc::Status SchedulerService::check(const grpc::CallbackServerContext& context) {
  grpc::Status status = check_caller(context, security_, refusals_);
  if (status.ok() && closed_) status = is_job_over_ ? job_is_over() : scheduler_was_replaced();
  return status;
}

// gRPC owns the calls that the functions below make; they delete themselves.
JoinCall* SchedulerService::make_join(const std::string& peer) {
  const auto received = [this, peer](JoinCall& call, const proto::JoinRequest& request) -> grpc::Status {
    if (request.role() != proto::ROLE_WORKER && request.role() != proto::ROLE_SERVER) {
      return malformed("the role must be worker or server");
    }
    calls_.on_join(&call, request, peer);
    return grpc::Status::OK;
  };
  return new JoinCall(tracker_, next_call_++, received, [this](const proto::JoinRequest& request, uint64_t id) {
    calls_.on_join_cancelled(request.incarnation(), id);
  });
}

BarrierCall* SchedulerService::make_barrier() {
  const auto received = [this](BarrierCall& call, const proto::BarrierRequest& request) -> grpc::Status {
    if (const std::string why = objection(request); !why.empty()) return to_status({Code::kUsage, why, {}});
    calls_.on_barrier(&call, request);
    return grpc::Status::OK;
  };
  return new BarrierCall(tracker_, next_call_++, received, [this](const proto::BarrierRequest& request, uint64_t id) {
    calls_.on_barrier_cancelled(request.incarnation(), id);
  });
}

DoneCall* SchedulerService::make_done() {
  const auto received = [this](DoneCall& call, const proto::DoneRequest& request) -> grpc::Status {
    calls_.on_done(&call, request);
    return grpc::Status::OK;
  };
  // There is nothing to cancel, because the owner answers as soon as it has handled the call.
  return new DoneCall(tracker_, next_call_++, received, [](const proto::DoneRequest&, uint64_t) {});
}

DescribeCall* SchedulerService::make_describe() {
  const auto received = [this](DescribeCall& call, const proto::DescribeRequest&) -> grpc::Status {
    calls_.on_describe(&call);
    return grpc::Status::OK;
  };
  return new DescribeCall(tracker_, next_call_++, received, [](const proto::DescribeRequest&, uint64_t) {});
}

LeaveCall* SchedulerService::make_leave() {
  const auto received = [this](LeaveCall& call, const proto::LeaveRequest& request) -> grpc::Status {
    calls_.on_leave(&call, request);
    return grpc::Status::OK;
  };
  return new LeaveCall(tracker_, next_call_++, received,
                       [this](const proto::LeaveRequest&, uint64_t id) { calls_.on_leave_cancelled(id); });
}

grpc::ServerGenericBidiReactor* SchedulerService::open_call(const grpc::GenericCallbackServerContext& context) {
  const auto begin = [](auto* call) {
    call->start();
    return call;
  };
  if (context.method() == "/dtrain.proto.Scheduler/Join") return begin(make_join(context.peer()));
  if (context.method() == "/dtrain.proto.Scheduler/Barrier") return begin(make_barrier());
  if (context.method() == "/dtrain.proto.Scheduler/Done") return begin(make_done());
  if (context.method() == "/dtrain.proto.Scheduler/Describe") return begin(make_describe());
  if (context.method() == "/dtrain.proto.Scheduler/Leave") return begin(make_leave());
  return nullptr;
}

grpc::ServerGenericBidiReactor* SchedulerService::CreateReactor(grpc::GenericCallbackServerContext* context) {
  grpc::ServerGenericBidiReactor* reactor = nullptr;
  grpc::Status status;
  const Result<> outcome = catching(
      [&]() -> Result<> {
        status = check(*context);
        if (status.ok()) reactor = open_call(*context);
        return {};
      },
      "a call to the scheduler");
  if (!outcome) status = to_status(outcome.error());
  if (status.ok() && reactor == nullptr) status = {grpc::StatusCode::UNIMPLEMENTED, "no such method"};
  return status.ok() ? reactor : new RefusedCall<grpc::ByteBuffer, grpc::ByteBuffer>(status);
}

grpc::ServerBidiReactor<proto::Up, proto::Down>* SchedulerService::Control(grpc::CallbackServerContext* context) {
  std::shared_ptr<ControlCall> stream;
  grpc::Status status;
  const Result<> outcome = catching(
      [&]() -> Result<> {
        status = check(*context);
        if (status.ok()) stream = ControlCall::make(*context, std::make_unique<ControlEvents>(calls_, tracker_));
        return {};
      },
      "a stream to the scheduler");
  if (!outcome) status = to_status(outcome.error());
  if (!status.ok()) return new RefusedCall<proto::Up, proto::Down>(status);
  stream->start();
  return stream.get();
}

}  // namespace dtrain::rpc
