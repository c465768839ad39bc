// Opens TCP connections.
#pragma once

#include <chrono>

#include "base/error.h"
#include "base/unique_fd.h"
#include "net/endpoint.h"

namespace dtrain::net {

// Connects to the first of the endpoint's addresses that answers, within `limit` for all of them together. The
// connection does not block, sends small messages immediately, and counts as broken if the other host has acknowledged
// nothing for 15 s. Code::kStartup: no such host, no route, refused, or no answer in time.
Result<UniqueFd> connect_to(const Endpoint& peer, std::chrono::milliseconds limit);

// Sets the same properties on an accepted connection.
void set_watched(const UniqueFd& connection);

}  // namespace dtrain::net
