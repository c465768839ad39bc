#include "rpc/running_job.h"

#include <grpcpp/client_context.h>

#include <optional>

#include "rpc/certificates.h"
#include "rpc/channel.h"
#include "rpc/status.h"
#include "scheduler.grpc.pb.h"

namespace dtrain::rpc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAskAgain{100};
// Limit on one call of describe_job(): a scheduler that stands still accepts connections but does not answer.
constexpr std::chrono::milliseconds kDescribeMax{5'000};

Error while_asking(const grpc::Status& status, const net::Endpoint& scheduler) {
  return from_status(status).with(fmt::format("asking the scheduler at {}", to_text(scheduler)));
}

grpc::Status describe(proto::Scheduler::Stub& stub, const Security& security, proto::JobDescription& reply) {
  grpc::ClientContext context;
  sign(context, security);
  context.set_wait_for_ready(false);
  context.set_deadline(std::chrono::system_clock::now() + kDescribeMax);
  return stub.Describe(&context, {}, &reply);
}

}  // namespace

// Makes the call once, because a person waits and can ask again.
Result<std::string> leave(const net::Endpoint& scheduler, const Security& security, uint32_t rank) {
  const auto stub = proto::Scheduler::NewStub(make_channel(scheduler, security, Traffic::kControl));
  grpc::ClientContext context;
  sign(context, security);
  context.set_wait_for_ready(false);
  proto::LeaveRequest request;
  request.set_rank(rank);
  proto::LeaveReply reply;
  const grpc::Status status = stub->Leave(&context, request, &reply);
  if (status.ok()) return reply.host();
  return tl::unexpected(while_asking(status, scheduler));
}

Result<JobDescription> describe_job(const net::Endpoint& scheduler, const Security& security,
                                    const Patience& patience) {
  const auto channel = make_channel(scheduler, security, Traffic::kControl);
  const auto stub = proto::Scheduler::NewStub(channel);
  const auto give_up = Clock::now() + patience.limit;
  for (std::optional<Clock::time_point> look_at;;) {
    proto::JobDescription reply;
    const grpc::Status status = describe(*stub, security, reply);
    if (status.ok()) return JobDescription{reply.job(), reply.run_dir()};
    if (!is_worth_retrying(status) || is_job_over(status)) return tl::unexpected(while_asking(status, scheduler));
    if (Clock::now() >= give_up) return no_answer(scheduler, patience.limit, status.error_message());
    if (!look_at && patience.on_wait) patience.on_wait();
    if (!look_at || Clock::now() >= *look_at) {
      const auto refusal = tls_refusal(scheduler, security.tls, kLookAtTls);
      if (refusal) return fail(Code::kDenied, "{}", *refusal);
      look_at = Clock::now() + kLookAtTls;
    }
    channel->WaitForConnected(std::chrono::system_clock::now() + kAskAgain);
    if (patience.gives_up && patience.gives_up()) {
      return fail(Code::kPreempted, "asked to stop before the scheduler at {} has answered", to_text(scheduler));
    }
  }
}

}  // namespace dtrain::rpc
