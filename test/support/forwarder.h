// Passes TCP connections on to a port of this host. Can cut those of one caller, and pass them on to another port.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/poll_until.h"
#include "base/unique_fd.h"

namespace dtrain::test {

class Forwarder {
 public:
  enum class Cut {
    kSwallow,  // passes nothing on, and closes nothing
    kClose,    // closes the connections, and each new one
  };

  // Listens on this address and port (0: any port).
  Forwarder(const std::string& address, uint16_t port, uint16_t to) : listener_(listen_on(address, port)), to_(to) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    woken_ = UniqueFd(ends[0]);
    wake_ = UniqueFd(ends[1]);
    thread_ = std::thread([this] { run(); });
  }
  ~Forwarder() {
    wake_.close();
    thread_.join();
  }
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  [[nodiscard]] uint16_t port() const {
    sockaddr_in own{};
    socklen_t size = sizeof own;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&own), &size);
    return ntohs(own.sin_port);
  }
  // From now on, cuts the connections whose caller has sent this text, new ones too. An empty text: all connections.
  void cut(Cut how, const std::string& text) {
    const MutexLock lock(mutex_);
    cuts_.push_back({how, text});
    (void)!::write(wake_.get(), "", 1);
  }

  // From now on, passes new connections on to this port, and closes those that are open.
  void redirect(uint16_t to) {
    const MutexLock lock(mutex_);
    to_ = to;
    is_redirected_ = true;
    (void)!::write(wake_.get(), "", 1);
  }

 private:
  struct Rule {
    Cut how;
    std::string text;
  };
  struct Connection {
    UniqueFd caller, called;
    std::string beginning = {};  // what the caller has sent first
    std::optional<Cut> cut = {};
    bool broken = false;
  };
  static constexpr size_t kBeginningMax = 4096;

  static UniqueFd listen_on(const std::string& address, uint16_t port) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const sockaddr_in own = address_of(address, port);
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 || ::listen(fd.get(), 64) != 0) {
      throw std::runtime_error("cannot listen on " + address);
    }
    return fd;
  }
  static sockaddr_in address_of(const std::string& address, uint16_t port) {
    sockaddr_in made{};
    made.sin_family = AF_INET;
    made.sin_port = htons(port);
    ::inet_pton(AF_INET, address.c_str(), &made.sin_addr);
    return made;
  }

  void run() {
    std::vector<pollfd> watched;
    while (true) {
      watched = {{woken_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const Connection& c : connections_) {
        const short events = c.cut ? 0 : POLLIN;
        // poll() ignores a negative descriptor. A cut connection is not looked at, or its end would be passed on.
        watched.push_back({c.cut ? -1 : c.caller.get(), events, 0});
        watched.push_back({c.cut ? -1 : c.called.get(), events, 0});
      }
      poll_until(watched, std::nullopt);
      if (watched[0].revents != 0 && ::read(woken_.get(), bytes_.data(), bytes_.size()) == 0) return;
      if (take_redirection()) connections_.clear();
      size_t i = 2;
      for (Connection& c : connections_) {
        judge(c);
        if (watched[i++].revents != 0) pass_on(c, true);
        if (watched[i++].revents != 0) pass_on(c, false);
      }
      std::erase_if(connections_, [](const Connection& c) { return c.broken; });
      if (watched[1].revents != 0) accept();
    }
  }

  bool take_redirection() {
    const MutexLock lock(mutex_);
    return std::exchange(is_redirected_, false);
  }
  uint16_t port_to() {
    const MutexLock lock(mutex_);
    return to_;
  }

  void accept() {
    UniqueFd caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    UniqueFd called(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to = address_of("127.0.0.1", port_to());
    if (!caller.open()) return;
    if (::connect(called.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return;
    connections_.push_back({std::move(caller), std::move(called)});
    judge(connections_.back());
  }

  void judge(Connection& connection) {
    const MutexLock lock(mutex_);
    for (const Rule& rule : cuts_) {
      if (connection.cut || connection.beginning.find(rule.text) == std::string::npos) continue;
      connection.cut = rule.how;
      connection.broken = rule.how == Cut::kClose;
    }
  }

  void pass_on(Connection& connection, bool from_caller) {
    if (connection.cut) return;
    const UniqueFd& from = from_caller ? connection.caller : connection.called;
    const UniqueFd& to = from_caller ? connection.called : connection.caller;
    const ssize_t count = ::read(from.get(), bytes_.data(), bytes_.size());
    if (count > 0 && from_caller && connection.beginning.size() < kBeginningMax) {
      connection.beginning.append(bytes_.data(), static_cast<size_t>(count));
      judge(connection);
      if (connection.cut) return;
    }
    for (ssize_t sent = 0; sent < count;) {
      const ssize_t more = ::send(to.get(), bytes_.data() + sent, static_cast<size_t>(count - sent), MSG_NOSIGNAL);
      if (more <= 0) connection.broken = true;
      if (more <= 0) return;
      sent += more;
    }
    if (count <= 0) connection.broken = true;
  }

  UniqueFd listener_, woken_, wake_;
  std::list<Connection> connections_;
  std::array<char, 1 << 16> bytes_ = {};
  Mutex mutex_;
  uint16_t to_ DT_GUARDED_BY(mutex_);
  bool is_redirected_ DT_GUARDED_BY(mutex_) = false;  // since the thread has last looked
  std::vector<Rule> cuts_ DT_GUARDED_BY(mutex_);
  std::thread thread_;
};

// The text that a worker of this rank (0 to 9) sends first on each connection to a server: the rank in the metadata of
// its stream, which gRPC does not compress.
inline std::string sent_first_by_worker(int rank) {
  return std::string("dtrain-rank\x01") + std::to_string(rank);
}

}  // namespace dtrain::test
