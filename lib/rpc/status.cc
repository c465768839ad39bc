#include "rpc/status.h"

namespace dtrain::rpc {
namespace {

constexpr auto kLastCode = static_cast<uint32_t>(Code::kUnavailable);

grpc::StatusCode status_code(Code code) {
  switch (code) {
    case Code::kUsage: return grpc::StatusCode::INVALID_ARGUMENT;
    case Code::kDenied: return grpc::StatusCode::PERMISSION_DENIED;
    case Code::kNotFound: return grpc::StatusCode::NOT_FOUND;
    case Code::kUnavailable: return grpc::StatusCode::UNAVAILABLE;
    case Code::kStartup:
    case Code::kPeerLost:
    case Code::kPreempted: return grpc::StatusCode::ABORTED;
    default: return grpc::StatusCode::INTERNAL;
  }
}

Code code_of(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED: return Code::kUnavailable;
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::UNIMPLEMENTED:
    case grpc::StatusCode::PERMISSION_DENIED: return Code::kDenied;
    default: return Code::kInternal;
  }
}

}  // namespace

proto::Failure to_failure(const Error& error) {
  proto::Failure failure;
  failure.set_code(static_cast<uint32_t>(error.code));
  failure.set_message(error.message);
  for (const std::string& frame : error.context) failure.add_context(frame);
  return failure;
}

Error from_failure(const proto::Failure& failure) {
  const Code code = failure.code() <= kLastCode ? static_cast<Code>(failure.code()) : Code::kInternal;
  return {code, failure.message(), {failure.context().begin(), failure.context().end()}};
}

grpc::Status to_status(const Error& error) {
  return {status_code(error.code), error.message, to_failure(error).SerializeAsString()};
}

bool is_worth_retrying(const grpc::Status& status) {
  if (!status.error_details().empty()) return from_status(status).code == Code::kUnavailable;
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::DATA_LOSS:
    case grpc::StatusCode::RESOURCE_EXHAUSTED: return true;
    default: return false;
  }
}

grpc::Status job_is_over() {
  return to_status({Code::kUnavailable, "the job is over", {}});
}

grpc::Status scheduler_was_replaced() {
  return {grpc::StatusCode::UNAVAILABLE, "another scheduler has taken the place of the one that has answered"};
}

// Recognizes job_is_over(): no other UNAVAILABLE status has details.
bool is_job_over(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE && !status.error_details().empty();
}

Error from_status(const grpc::Status& status) {
  proto::Failure failure;
  if (!status.error_details().empty() && failure.ParseFromString(status.error_details())) return from_failure(failure);
  return {code_of(status.error_code()), status.error_message(), {}};
}

tl::unexpected<Error> no_answer(const net::Endpoint& scheduler, std::chrono::milliseconds limit,
                                const std::string& last) {
  return fail(Code::kStartup, "no answer from the scheduler at {} within {:.1f} s: check that it is running there ({})",
              to_text(scheduler), std::chrono::duration<double>(limit).count(), last);
}

}  // namespace dtrain::rpc
