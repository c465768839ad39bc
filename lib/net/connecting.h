// Connections over TCP that are begun here.
#pragma once

#include <chrono>

#include "base/error.h"
#include "base/unique_fd.h"
#include "net/endpoint.h"

namespace dtrain::net {

// A connection to the first of the endpoint's addresses that answers, within the time for all of them together. It does
// not block, sends small messages at once, and counts as broken when the other host has acknowledged nothing for
// 15 s. Code::kStartup: no such host, no route, refused, or no answer in time.
Result<UniqueFd> connect_to(const Endpoint& peer, std::chrono::milliseconds limit);

// Sets these properties on a connection that was accepted.
void set_watched(const UniqueFd& connection);

}  // namespace dtrain::net
