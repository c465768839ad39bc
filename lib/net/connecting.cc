#include "net/connecting.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/poll_until.h"
#include "net/address_list.h"

namespace dtrain::net {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kUnacknowledgedMs = 15'000;
constexpr int kProbeSeconds = 5;  // after this many seconds of silence the kernel probes the peer
constexpr int kProbes = 2;

// Waits until the socket is connected. Returns 0, or the errno of the failure.
int finish_connecting(const UniqueFd& socket, Clock::time_point until) {
  pollfd watched{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  int ready = 0;
  while ((ready = poll_until({&watched, 1}, until)) < 0 && errno == EINTR) {
  }
  if (ready <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

}  // namespace

void set_watched(const UniqueFd& connection) {
  ::fcntl(connection.get(), F_SETFL, ::fcntl(connection.get(), F_GETFL) | O_NONBLOCK);
  const auto set = [&](int level, int option, int value) {
    (void)::setsockopt(connection.get(), level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUnacknowledgedMs);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kProbeSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

Result<UniqueFd> connect_to(const Endpoint& peer, std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int status = ::getaddrinfo(peer.host.c_str(), std::to_string(peer.port).c_str(), &hints, &list);
  if (status != 0) return fail(Code::kStartup, "host '{}' not found: {}", peer.host, gai_strerror(status));
  const AddressList addresses(list);
  int error = ENETUNREACH;
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    UniqueFd socket(::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    error = errno;
    if (!socket.open()) continue;
    set_watched(socket);
    error = ::connect(socket.get(), entry->ai_addr, entry->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) error = finish_connecting(socket, until);
    if (error == 0) return socket;
  }
  return fail(Code::kStartup, "cannot connect to {}: {}", to_text(peer), std::strerror(error));
}

}  // namespace dtrain::net
