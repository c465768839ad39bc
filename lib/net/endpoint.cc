#include "net/endpoint.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "base/host_limits.h"
#include "net/address_list.h"

namespace dtrain::net {
namespace {

Result<AddressList> resolve(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  const int status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (status != 0) return fail(Code::kStartup, "host '{}' not found: {}", host, gai_strerror(status));
  return AddressList(list);
}

// The 4 or 16 bytes of the address, without the port.
std::string bytes_of(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return {reinterpret_cast<const char*>(&v4->sin_addr), sizeof(v4->sin_addr)};
  }
  if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    return {reinterpret_cast<const char*>(&v6->sin6_addr), sizeof(v6->sin6_addr)};
  }
  return {};
}

bool is_loopback_address(const sockaddr* address) {
  const std::string bytes = bytes_of(address);
  if (bytes.size() == 4) return bytes[0] == 127;
  return bytes == std::string(15, '\0') + '\x01';
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> own;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return own;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr != nullptr) own.push_back(bytes_of(entry->ifa_addr));
  }
  freeifaddrs(list);
  std::erase(own, std::string());
  return own;
}

template <class Predicate>
bool all_addresses(const std::string& host, Predicate holds) {
  const auto addresses = resolve(host, 0);
  if (!addresses) return false;
  for (const addrinfo* entry = addresses->get(); entry != nullptr; entry = entry->ai_next) {
    if (!holds(entry->ai_addr)) return false;
  }
  return true;
}

Result<std::string> connected_address(const addrinfo& to) {
  const int fd = socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(Code::kStartup, "cannot open a socket: {}", std::strerror(errno));
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  // Connecting a datagram socket sends nothing, but makes the kernel choose the route and the source address.
  const bool routed =
      connect(fd, to.ai_addr, to.ai_addrlen) == 0 && getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  const int error = errno;
  close(fd);
  if (!routed) return fail(Code::kStartup, "there is no route to the address: {}", std::strerror(error));
  char text[NI_MAXHOST];
  const int status =
      getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  if (status != 0) return fail(Code::kStartup, "cannot read this host's own address: {}", gai_strerror(status));
  return std::string(text);
}

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view text, uint16_t port_min) {
  const size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, std::min(colon, text.size()));
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool plain_v6 = !bracketed && host.find(':') != std::string_view::npos;
  uint16_t port = 0;
  const std::string_view digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (host.empty() || plain_v6 || error != std::errc() || end != digits.data() + digits.size() || port < port_min) {
    return fail(Code::kUsage, "'{}' is not HOST:PORT with a port from {} to 65535 (write an IPv6 address in brackets)",
                text, port_min);
  }
  return Endpoint{std::string(host), port};
}

std::string to_text(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", endpoint.host, endpoint.port) : fmt::format("{}:{}", endpoint.host, endpoint.port);
}

bool is_this_host(const std::string& host) {
  const std::vector<std::string> own = own_addresses();
  return all_addresses(host, [&](const sockaddr* address) {
    return is_loopback_address(address) || std::ranges::find(own, bytes_of(address)) != own.end();
  });
}

bool is_peer_of_this_host(std::string_view peer) {
  const size_t scheme_end = peer.find(':');
  if (scheme_end == std::string_view::npos) return false;
  std::string address(peer.substr(scheme_end + 1));
  for (const auto& [code, bracket] : {std::pair("%5B", "["), std::pair("%5D", "]")}) {
    const size_t at = address.find(code);
    if (at != std::string::npos) address.replace(at, 3, bracket);
  }
  const Result<Endpoint> endpoint = parse_endpoint(address);
  return endpoint && is_this_host(endpoint->host);
}

namespace {

struct Interface {
  std::string name, address;
};

bool is_link_local(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// All interfaces that have an address, those with an IPv4 address first. Link-local addresses are left out, because a
// peer could use such an address only if it knew the interface.
std::vector<Interface> interfaces() {
  std::vector<Interface> all;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return all;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family || is_link_local(entry->ifa_addr))
        continue;
      char text[NI_MAXHOST];
      const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      if (getnameinfo(entry->ifa_addr, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) continue;
      all.push_back({entry->ifa_name, text});
    }
  }
  freeifaddrs(list);
  return all;
}

}  // namespace

Result<std::string> interface_address(const std::vector<std::string>& names) {
  const std::vector<Interface> all = interfaces();
  for (const std::string& name : names) {
    const auto found = std::ranges::find(all, name, &Interface::name);
    if (found != all.end()) return found->address;
  }
  std::string there;
  for (const Interface& one : all) there += fmt::format("{}{} {}", there.empty() ? "" : ", ", one.name, one.address);
  return fail(Code::kStartup, "no interface '{}' has an address on {}; interfaces with addresses: {}",
              fmt::join(names, "' or '"), host_name(), there);
}

std::vector<std::string> own_address_texts() {
  std::vector<std::string> addresses;
  for (const Interface& one : interfaces()) {
    if (one.address != "::1" && !one.address.starts_with("127.")) addresses.push_back(one.address);
  }
  return addresses;
}

Result<std::string> source_address(const Endpoint& peer) {
  DT_TRY(const AddressList addresses, resolve(peer.host, peer.port));
  Result<std::string> address = fail(Code::kStartup, "host '{}' has no address", peer.host);
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    address = connected_address(*entry);
    if (address) return address;
  }
  return tl::unexpected(std::move(address.error())
                            .with(fmt::format("choosing the address at which {} reaches this host", to_text(peer))));
}

}  // namespace dtrain::net
