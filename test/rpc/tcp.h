// Plain TCP connections to a listener on this machine.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string_view>

#include "base/poll_until.h"
#include "base/unique_fd.h"

namespace dtrain::rpc::test {

// Opens a connection and sends nothing.
inline UniqueFd connect_to(uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) throw std::runtime_error("connect");
  return fd;
}

// The first bytes of an HTTP/2 client: the preface and an empty SETTINGS frame.
using namespace std::string_view_literals;
inline constexpr std::string_view kHttp2Greeting = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"sv;

inline void say(const UniqueFd& connection, std::string_view text) {
  // The error of a closed connection is ignored here; the caller notices it by other means.
  (void)!::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

// True if the other side closes the connection within the limit. Bytes that it sends before are dropped.
inline bool is_closed_within(const UniqueFd& connection, std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  pollfd entry{.fd = connection.get(), .events = POLLIN, .revents = 0};
  while (poll_until({&entry, 1}, until) == 1) {
    char bytes[256];
    if (::read(connection.get(), bytes, sizeof(bytes)) <= 0) return true;
  }
  return false;
}

}  // namespace dtrain::rpc::test
