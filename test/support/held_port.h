// A port of this host for a program that must be told one before it starts.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>

namespace dtrain::test {

// Holds the port as long as it lives: its socket is bound and does not listen. So the system gives the port to nobody
// who asks for any port, connections to it are refused, and a program that names it can listen there, because its
// socket has SO_REUSEADDR as this one has.
class HeldPort {
 public:
  HeldPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t size = sizeof address;
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    if (::bind(fd_, name, size) != 0 || ::getsockname(fd_, name, &size) != 0) throw std::runtime_error("no free port");
    number_ = ntohs(address.sin_port);
  }
  ~HeldPort() { ::close(fd_); }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;
  [[nodiscard]] uint16_t number() const { return number_; }

 private:
  int fd_;
  uint16_t number_ = 0;
};

}  // namespace dtrain::test
