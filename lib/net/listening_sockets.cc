#include "net/listening_sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "net/address_list.h"

namespace dtrain::net {
namespace {

AddressList addresses_of(const Endpoint& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  const int status = getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &list);
  return AddressList(status == 0 ? list : nullptr);
}

void set(const UniqueFd& socket, int level, int option, unsigned value) {
  (void)setsockopt(socket.get(), level, option, &value, sizeof(value));
}

tl::expected<UniqueFd, int> open_one(const sockaddr* address, socklen_t size, unsigned unacknowledged_ms) {
  UniqueFd fd(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.open()) return tl::unexpected(errno);
  set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    set(fd, IPPROTO_IPV6, IPV6_V6ONLY, IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) ? 0 : 1);
  }
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, unacknowledged_ms);
  if (::bind(fd.get(), address, size) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) return tl::unexpected(errno);
  return fd;
}

uint16_t port_of(const UniqueFd& socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return 0;
  // The port is at the same offset in both address families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&own)->sin_port);
}

}  // namespace

tl::expected<ListeningSockets, int> open_listening_sockets(const Endpoint& where, unsigned unacknowledged_ms) {
  if (where.host == "0.0.0.0") {
    // A single socket for both families; opening it fails on a host without IPv6.
    auto both = open_listening_sockets({"::", where.port}, unacknowledged_ms);
    if (both || (both.error() != EAFNOSUPPORT && both.error() != EADDRNOTAVAIL)) return both;
  }
  const AddressList addresses = addresses_of(where);
  if (addresses == nullptr) return tl::unexpected(EADDRNOTAVAIL);
  ListeningSockets opened;
  opened.port = where.port;
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    sockaddr_storage address{};
    std::memcpy(&address, entry->ai_addr, entry->ai_addrlen);
    reinterpret_cast<sockaddr_in*>(&address)->sin_port = htons(opened.port);
    auto one = open_one(reinterpret_cast<const sockaddr*>(&address), entry->ai_addrlen, unacknowledged_ms);
    // This address may be of a family that this host does not use, because a name may resolve to several.
    const bool is_unusable = !one && (one.error() == EAFNOSUPPORT || one.error() == EADDRNOTAVAIL);
    if (is_unusable && (entry->ai_next != nullptr || !opened.sockets.empty())) continue;
    if (!one) return tl::unexpected(one.error());
    opened.port = port_of(*one);
    opened.sockets.push_back(std::move(*one));
  }
  return opened;
}

tl::expected<ListeningSockets, int> open_first_port(const Listen& where, unsigned unacknowledged_ms) {
  tl::expected<ListeningSockets, int> opened = tl::unexpected(EADDRINUSE);
  for (uint32_t port = where.port_first; !opened && port <= std::max(where.port_first, where.port_last); port++) {
    opened = open_listening_sockets({where.host, static_cast<uint16_t>(port)}, unacknowledged_ms);
  }
  return opened;
}

}  // namespace dtrain::net
