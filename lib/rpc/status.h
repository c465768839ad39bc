// Transmits errors across a call: an Error becomes a gRPC status whose details hold the code and context, and is
// restored from that status.
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>

#include "base/error.h"
#include "net/endpoint.h"
#include "scheduler.pb.h"

namespace dtrain::rpc {

proto::Failure to_failure(const Error& error);
// An unknown code becomes kInternal.
Error from_failure(const proto::Failure& failure);

grpc::Status to_status(const Error& error);
// Whether the same call may succeed later. A status with details is an error of dtrain, of which only
// Code::kUnavailable is temporary. A status without details is gRPC's own. A broken connection gives UNAVAILABLE, but
// also INTERNAL, UNKNOWN and others, depending on where it broke. Permanent faults give the same statuses, so the
// caller needs a time limit.
bool is_worth_retrying(const grpc::Status& status);

// The status with which the scheduler ends the calls and streams that are open when it ends.
grpc::Status job_is_over();
bool is_job_over(const grpc::Status& status);
// The same, of a scheduler whose job another one continues. To the caller it looks like a broken connection.
grpc::Status scheduler_was_replaced();

// Converts a status without details: UNAVAILABLE, CANCELLED and DEADLINE_EXCEEDED become Code::kUnavailable, refusals
// become kDenied.
Error from_status(const grpc::Status& status);

// Code::kStartup: a call to the scheduler was repeated for `limit`, and `last` says why it failed the last time.
tl::unexpected<Error> no_answer(const net::Endpoint& scheduler, std::chrono::milliseconds limit,
                                const std::string& last);

}  // namespace dtrain::rpc
