// Counts, for --inject, the messages of the calls that this process makes, so that it can be killed or stopped at any
// of them (base/step_faults.h).
#pragma once

#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <vector>

#include "base/step_faults.h"

namespace dtrain::rpc {

using Interceptors = std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>;

// Interceptors for a channel that report each message to `points`, by the names of job::fault_messages(): a message
// that is about to be sent, or that has been received but has had no effect yet. None if `points` is null.
Interceptors message_counters(std::shared_ptr<FailPoints> points);

}  // namespace dtrain::rpc
