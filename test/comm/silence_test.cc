#include "comm/silence.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/unique_fd.h"
#include "support/catch.h"

using namespace dtrain;

namespace {

std::string own_address(const UniqueFd& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return {reinterpret_cast<const char*>(&address), sizeof address};
}

// Both ends of a TCP connection of this process to itself.
struct Connection {
  Connection() : listener(::socket(AF_INET, SOCK_STREAM, 0)), caller(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    const std::string bytes = own_address(listener);
    REQUIRE(::connect(caller.get(), reinterpret_cast<const sockaddr*>(bytes.data()), sizeof address) == 0);
    called = UniqueFd(::accept(listener.get(), nullptr, nullptr));
    REQUIRE(called.open());
  }
  UniqueFd listener, caller, called;
};

int option(const UniqueFd& socket, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  REQUIRE(::getsockopt(socket.get(), level, name, &value, &size) == 0);
  return value;
}

}  // namespace

TEST_CASE("both ends of the connections with an address are limited, and no others", "[comm]") {
  const Connection meant, other;
  comm::limit_silence_of({own_address(meant.listener)}, 4.5);
  for (const UniqueFd* end : {&meant.caller, &meant.called}) {
    CHECK(option(*end, IPPROTO_TCP, TCP_USER_TIMEOUT) == 4500);
    CHECK(option(*end, SOL_SOCKET, SO_KEEPALIVE) == 1);
    // The first probe and the time for the answers to all of them are within the limit.
    CHECK(option(*end, IPPROTO_TCP, TCP_KEEPIDLE) == 1);
    CHECK(option(*end, IPPROTO_TCP, TCP_KEEPINTVL) == 1);
  }
  for (const UniqueFd* end : {&other.caller, &other.called}) {
    CHECK(option(*end, IPPROTO_TCP, TCP_USER_TIMEOUT) == 0);
    CHECK(option(*end, SOL_SOCKET, SO_KEEPALIVE) == 0);
  }
}
