#include "net/connecting.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "net/listening_sockets.h"
#include "support/catch.h"
#include "support/held_port.h"

namespace dtrain::net {

using namespace std::chrono_literals;

TEST_CASE("a connection carries bytes both ways and ends with its other end", "[net]") {
  const auto listening = net::open_listening_sockets({"127.0.0.1", 0}, 1000);
  REQUIRE(listening.has_value());
  const UniqueFd here = net::connect_to({"127.0.0.1", listening->port}, 5s).value();
  UniqueFd there(::accept4(listening->sockets[0].get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(there.open());
  REQUIRE(::write(there.get(), "hello", 5) == 5);
  pollfd watched{.fd = here.get(), .events = POLLIN, .revents = 0};
  REQUIRE(::poll(&watched, 1, 5000) == 1);
  std::array<char, 16> bytes{};
  CHECK(::read(here.get(), bytes.data(), bytes.size()) == 5);
  CHECK((::read(here.get(), bytes.data(), bytes.size()) == -1 && errno == EAGAIN));  // does not block
  there.close();
  REQUIRE(::poll(&watched, 1, 5000) == 1);
  CHECK(::read(here.get(), bytes.data(), bytes.size()) == 0);
}

TEST_CASE("a connection that cannot be made is refused with the cause", "[net]") {
  const test::HeldPort port;
  const auto refused = net::connect_to({"127.0.0.1", port.number()}, 5s);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Code::kStartup);
  CHECK(refused.error().message.find("Connection refused") != std::string::npos);
  CHECK(net::connect_to({"no-such-host.invalid", 1}, 5s).error().code == Code::kStartup);
}

}  // namespace dtrain::net
