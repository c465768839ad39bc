#include "rpc/leave.h"

#include <grpcpp/client_context.h>

#include "rpc/channel.h"
#include "rpc/status.h"
#include "scheduler.grpc.pb.h"

namespace dtrain::rpc {

Result<std::string> leave(const net::Endpoint& scheduler, const Security& security, uint32_t rank) {
  const auto stub = proto::Scheduler::NewStub(make_channel(scheduler, security, Traffic::kControl));
  grpc::ClientContext context;
  sign(context, security);
  context.set_wait_for_ready(false);  // a person waits, and can ask again
  proto::LeaveRequest request;
  request.set_rank(rank);
  proto::LeaveReply reply;
  const grpc::Status status = stub->Leave(&context, request, &reply);
  if (status.ok()) return reply.host();
  return tl::unexpected(from_status(status).with(fmt::format("asking the scheduler at {}", to_text(scheduler))));
}

}  // namespace dtrain::rpc
