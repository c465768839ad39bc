// What `dtrain leave` asks of the scheduler of a running job.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "net/endpoint.h"
#include "rpc/security.h"

namespace dtrain::rpc {

// Asks that the worker with this rank leaves, waits until it has left, and returns the name of its host. The wait has
// no limit, because the worker ends its step first. Code::kUsage if the worker cannot leave, kUnavailable if no
// scheduler answers at this address, kDenied if the token or the build is wrong.
Result<std::string> leave(const net::Endpoint& scheduler, const Security& security, uint32_t rank);

}  // namespace dtrain::rpc
