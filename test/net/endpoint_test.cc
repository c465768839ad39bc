#include "net/endpoint.h"

#include "support/catch.h"

namespace dtrain::net {

TEST_CASE("addresses are parsed and formatted, including IPv6, and invalid ones are refused", "[net]") {
  CHECK(parse_endpoint("10.0.0.1:9091").value() == Endpoint{"10.0.0.1", 9091});
  CHECK(parse_endpoint("[fe80::1]:80").value() == Endpoint{"fe80::1", 80});
  CHECK(parse_endpoint("node-3:65535").value() == Endpoint{"node-3", 65535});
  CHECK(parse_endpoint("[::1]:0", 0).value() == Endpoint{"::1", 0});
  CHECK_FALSE(net::parse_endpoint("[::1]:0"));
  CHECK(net::parse_endpoint("::1:0", 0).error().message.starts_with("'::1:0' is not HOST:PORT with a port from 0 "));
  CHECK(to_text(net::Endpoint{"fe80::1", 80}) == "[fe80::1]:80");
  CHECK(to_text(net::Endpoint{"node-3", 80}) == "node-3:80");
  for (const char* text :
       {"", ":", "host", "host:", ":80", "host:0", "host:65536", "host:8x", "fe80::1:80", "host:-1"}) {
    INFO(text);
    const auto endpoint = net::parse_endpoint(text);
    REQUIRE_FALSE(endpoint.has_value());
    CHECK(endpoint.error().code == Code::kUsage);
  }
}

TEST_CASE("addresses of this host are recognized", "[net]") {
  CHECK(net::is_this_host("127.0.0.1"));
  CHECK(net::is_this_host("127.3.2.1"));
  CHECK(net::is_this_host("::1"));
  CHECK_FALSE(net::is_this_host("no-such-host.invalid"));
  CHECK_FALSE(net::is_this_host("192.0.2.1"));  // reserved for documentation; no host has it
  CHECK(net::source_address({"127.0.0.1", 9091}).value() == "127.0.0.1");
  CHECK_FALSE(net::source_address({"no-such-host.invalid", 1}).has_value());
}

TEST_CASE("the other end of a connection is recognized as of this host or of another", "[net]") {
  CHECK(net::is_peer_of_this_host("ipv4:127.0.0.1:41002"));
  CHECK(net::is_peer_of_this_host("ipv6:%5B::1%5D:41002"));
  CHECK(net::is_peer_of_this_host("ipv6:[::1]:41002"));
  CHECK_FALSE(net::is_peer_of_this_host("ipv4:192.0.2.1:41002"));
  CHECK_FALSE(net::is_peer_of_this_host("ipv6:%5B2001:db8::1%5D:41002"));
  for (const char* text : {"", ":", "unknown", "ipv4:", "ipv6:%5B::1", "unix:/tmp/socket"}) {
    INFO(text);
    CHECK_FALSE(net::is_peer_of_this_host(text));
  }
}

}  // namespace dtrain::net
