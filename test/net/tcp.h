// Plain TCP connections to a listener on this host.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/poll_until.h"
#include "base/unique_fd.h"

namespace dtrain::test {

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
using namespace std::string_literals;
using namespace std::string_view_literals;
inline constexpr std::string_view kHttp2Greeting = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"sv;

// The HEADERS frame of a call of Scheduler.Join on stream 1, without compression: each name and value follows its
// length.
inline std::string call_without_token() {
  std::string block;
  for (const auto& [name, value] : {std::pair{":method"sv, "POST"sv},
                                    {":scheme"sv, "http"sv},
                                    {":path"sv, "/dtrain.proto.Scheduler/Join"sv},
                                    {":authority"sv, "x"sv},
                                    {"content-type"sv, "application/grpc"sv},
                                    {"te"sv, "trailers"sv}}) {
    block += '\0';
    for (const std::string_view text : {name, value}) block += static_cast<char>(text.size()) + std::string(text);
  }
  return "\0\0"s + static_cast<char>(block.size()) + "\1\4\0\0\0\1"s + block;
}

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

}  // namespace dtrain::test
