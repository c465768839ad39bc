// Addresses to connect to and to listen on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::net {

struct Endpoint {
  std::string host;  // name or address; IPv6 addresses without brackets
  uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};
// Parses "host:port" or "[v6]:port". Code::kUsage if the text is malformed. The port must be at least `port_min`: an
// address to connect to cannot have port 0; in an address to listen on, port 0 means any free port.
Result<Endpoint> parse_endpoint(std::string_view text, uint16_t port_min = 1);
std::string to_text(const Endpoint& endpoint);

// Where to listen: at the first free port of port_first .. port_last or, if port_first is 0, at a port that the system
// chooses. The listener stays open once it has been opened.
struct Listen {
  std::string host = "127.0.0.1";
  uint16_t port_first = 0;
  uint16_t port_last = 0;  // last port of the range; 0: the range is port_first alone
};

// True if all addresses of the host are loopback addresses or belong to this host's interfaces. False for an unknown
// name. May query a name server.
bool is_this_host(const std::string& host);
// Like is_this_host, for the other end of a connection in gRPC's notation: "ipv4:10.0.0.7:41002",
// "ipv6:%5B::1%5D:41002".
bool is_peer_of_this_host(std::string_view peer);

// The address of the first of these network interfaces, given by exact name, that exists and has an address. IPv4 is
// preferred to IPv6. Code::kStartup lists the interfaces of this host and their addresses.
Result<std::string> interface_address(const std::vector<std::string>& names);

// The addresses of this host's interfaces, without loopback and link-local ones.
std::vector<std::string> own_address_texts();

// This host's own address on the route to `peer`, which is the default address that other hosts are given.
// Code::kStartup: no such host, or no route to it.
Result<std::string> source_address(const Endpoint& peer);

}  // namespace dtrain::net
