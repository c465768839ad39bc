#include "comm/silence.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>

namespace dtrain::comm {
namespace {

using NameOf = int (*)(int, sockaddr*, socklen_t*);

// The bytes of a socket's own address, or of the other end's; empty if it has none.
std::string address_of(int socket, NameOf name_of) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (name_of(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return {reinterpret_cast<const char*>(&address), std::min<size_t>(size, sizeof address)};
}

void limit(int socket, double seconds) {
  constexpr int kProbes = 3;
  const auto set = [&](int level, int option, int value) {
    (void)::setsockopt(socket, level, option, &value, sizeof value);
  };
  const int pause_s = std::max(1, static_cast<int>(std::floor(seconds / (kProbes + 1))));
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, pause_s);
  set(IPPROTO_TCP, TCP_KEEPINTVL, pause_s);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::lround(seconds * 1000)));
}

}  // namespace

void limit_silence_of(const std::vector<std::string>& addresses, double seconds) {
  const auto is_meant = [&](const std::string& address) { return std::ranges::count(addresses, address) > 0; };
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string name = entry.path().filename().string();
    int socket = -1;
    std::from_chars(name.data(), name.data() + name.size(), socket);
    if (is_meant(address_of(socket, ::getsockname)) || is_meant(address_of(socket, ::getpeername))) {
      limit(socket, seconds);
    }
  }
}

}  // namespace dtrain::comm
