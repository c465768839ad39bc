#include "rpc/scheduler_service.h"

#include "job/process/coordinator.h"
#include "rpc/channel.h"
#include "rpc/contribution.h"
#include "rpc/status.h"

namespace dtrain::rpc {
namespace {

constexpr size_t kBarrierNameMax = 200;
constexpr size_t kWorkersMax = 65'535;

grpc::ServerUnaryReactor* refuse(grpc::CallbackServerContext* context, const grpc::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

// Runs the reaction. If it throws, the call is refused with the exception as an Error.
template <class Reaction>
grpc::ServerUnaryReactor* guarded(grpc::CallbackServerContext* context, Reaction&& reaction) {
  grpc::ServerUnaryReactor* reactor = nullptr;
  const Result<> outcome = catching(
      [&]() -> Result<> {
        reactor = reaction();
        return {};
      },
      "a call to the scheduler");
  return outcome ? reactor : refuse(context, to_status(outcome.error()));
}

grpc::Status malformed(const char* what) {
  return {grpc::StatusCode::INVALID_ARGUMENT, what};
}

// Why the request cannot be a worker's; empty if it can.
std::string objection(const proto::BarrierRequest& request) {
  const auto too_long = [](size_t size, const char* what, size_t size_max) {
    return fmt::format("{} {} in a barrier, at most {} are possible", size, what, size_max);
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
    return "a barrier brings numbers or a message of a known kind";
  }
  return "";
}

// Receives the messages of one control stream. The first message is the Hello that identifies the process.
class ControlEvents final : public ControlCall::Events {
 public:
  ControlEvents(SchedulerCalls& calls, Tracker& tracker) : token_(tracker), calls_(calls) {}

  void on_message(ControlCall& stream, proto::Up& up) override {
    if (up.has_hello() && incarnation_ == 0 && up.hello().incarnation() != 0) {
      incarnation_ = up.hello().incarnation();
      stream_ = &stream;
      calls_.on_stream(stream.shared(), up.hello());
    } else if (incarnation_ != 0 && !up.has_hello()) {
      calls_.on_up(stream.shared(), incarnation_, up);
    } else {
      stream.close(malformed("a stream must begin with a Hello and contain no other"));
    }
  }
  void on_end() override {
    if (incarnation_ != 0) calls_.on_stream_end(incarnation_, stream_);
  }

 private:
  Tracker::Token token_;
  SchedulerCalls& calls_;
  Incarnation incarnation_ = 0;
  const ControlCall* stream_ = nullptr;
};

// A stream that is refused before anything is read from it.
class RefusedStream final : public grpc::ServerBidiReactor<proto::Up, proto::Down> {
 public:
  explicit RefusedStream(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::Status SchedulerService::check(const grpc::CallbackServerContext& context) const {
  grpc::Status status = check_caller(context, security_, log_);
  if (status.ok() && closed_) status = {grpc::StatusCode::UNAVAILABLE, "the scheduler is shutting down"};
  return status;
}

grpc::ServerUnaryReactor* SchedulerService::Join(grpc::CallbackServerContext* context,
                                                 const proto::JoinRequest* request, proto::JoinReply* reply) {
  return guarded(context, [&]() -> grpc::ServerUnaryReactor* {
    if (const grpc::Status status = check(*context); !status.ok()) return refuse(context, status);
    if (request->role() != proto::ROLE_WORKER && request->role() != proto::ROLE_SERVER) {
      return refuse(context, malformed("the role is neither worker nor server"));
    }
    const Incarnation incarnation = request->incarnation();
    auto call = std::make_unique<JoinCall>(
        tracker_, next_call_++, reply, [this, incarnation](uint64_t id) { calls_.on_join_cancelled(incarnation, id); });
    calls_.on_join(call.get(), *request, context->peer());
    return call.release();  // belongs to gRPC now and deletes itself
  });
}

grpc::ServerUnaryReactor* SchedulerService::Barrier(grpc::CallbackServerContext* context,
                                                    const proto::BarrierRequest* request, proto::BarrierReply* reply) {
  return guarded(context, [&]() -> grpc::ServerUnaryReactor* {
    if (const grpc::Status status = check(*context); !status.ok()) return refuse(context, status);
    if (const std::string why = objection(*request); !why.empty()) {
      return refuse(context, to_status({Code::kUsage, why, {}}));
    }
    const Incarnation incarnation = request->incarnation();
    auto call = std::make_unique<BarrierCall>(tracker_, next_call_++, reply, [this, incarnation](uint64_t id) {
      calls_.on_barrier_cancelled(incarnation, id);
    });
    calls_.on_barrier(call.get(), *request);
    return call.release();
  });
}

grpc::ServerUnaryReactor* SchedulerService::Done(grpc::CallbackServerContext* context,
                                                 const proto::DoneRequest* request, proto::DoneReply* reply) {
  return guarded(context, [&]() -> grpc::ServerUnaryReactor* {
    if (const grpc::Status status = check(*context); !status.ok()) return refuse(context, status);
    // The owner answers as soon as it has handled the call, so a cancellation changes nothing.
    auto call = std::make_unique<DoneCall>(tracker_, next_call_++, reply, [](uint64_t) {});
    calls_.on_done(call.get(), *request);
    return call.release();
  });
}

grpc::ServerBidiReactor<proto::Up, proto::Down>* SchedulerService::Control(grpc::CallbackServerContext* context) {
  std::shared_ptr<ControlCall> stream;
  grpc::Status status;
  const Result<> outcome = catching(
      [&]() -> Result<> {
        status = check(*context);
        if (status.ok()) stream = ControlCall::make(std::make_unique<ControlEvents>(calls_, tracker_));
        return {};
      },
      "a stream to the scheduler");
  if (!outcome) status = to_status(outcome.error());
  if (!status.ok()) return new RefusedStream(status);
  stream->start();
  return stream.get();
}

}  // namespace dtrain::rpc
