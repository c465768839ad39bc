#include "rpc/running_job.h"

#include <grpcpp/client_context.h>

#include "rpc/channel.h"
#include "rpc/status.h"
#include "scheduler.grpc.pb.h"

namespace dtrain::rpc {
namespace {

// Makes the call `method` once, because a person waits and can ask again.
template <class Request, class Reply>
Result<Reply> ask(const net::Endpoint& scheduler, const Security& security, const Request& request,
                  grpc::Status (proto::Scheduler::Stub::*method)(grpc::ClientContext*, const Request&, Reply*)) {
  const auto stub = proto::Scheduler::NewStub(make_channel(scheduler, security, Traffic::kControl));
  grpc::ClientContext context;
  sign(context, security);
  context.set_wait_for_ready(false);
  Reply reply;
  const grpc::Status status = ((*stub).*method)(&context, request, &reply);
  if (status.ok()) return reply;
  return tl::unexpected(from_status(status).with(fmt::format("asking the scheduler at {}", to_text(scheduler))));
}

}  // namespace

Result<std::string> leave(const net::Endpoint& scheduler, const Security& security, uint32_t rank) {
  proto::LeaveRequest request;
  request.set_rank(rank);
  DT_TRY(const proto::LeaveReply reply, ask(scheduler, security, request, &proto::Scheduler::Stub::Leave));
  return reply.host();
}

Result<JobDescription> describe_job(const net::Endpoint& scheduler, const Security& security) {
  DT_TRY(const proto::JobDescription reply,
         ask(scheduler, security, proto::DescribeRequest(), &proto::Scheduler::Stub::Describe));
  return JobDescription{reply.job(), reply.run_dir()};
}

}  // namespace dtrain::rpc
