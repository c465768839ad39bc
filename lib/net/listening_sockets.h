// The sockets that a server listens on.
#pragma once

#include <cstdint>
#include <tl/expected.hpp>
#include <vector>

#include "base/unique_fd.h"
#include "net/endpoint.h"

namespace dtrain::net {

struct ListeningSockets {
  std::vector<UniqueFd> sockets;  // the sockets, which are non-blocking
  uint16_t port = 0;
};

// Opens one socket for each address to which the name resolves; 0.0.0.0 and :: stand for every address of IPv4 and
// IPv6. Port 0: the system chooses a port. The error is an errno. Accepted connections send small messages immediately,
// and count as broken if the peer's host has acknowledged nothing for `unacknowledged_ms`.
tl::expected<ListeningSockets, int> open_listening_sockets(const Endpoint& where, unsigned unacknowledged_ms);
// Like open_listening_sockets, for the first port of the range that can be opened. The error is that of the last port.
tl::expected<ListeningSockets, int> open_first_port(const Listen& where, unsigned unacknowledged_ms);

}  // namespace dtrain::net
