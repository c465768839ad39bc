// A relay of TCP connections to a port of this host, which breaks them again and again.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "net/listening_sockets.h"
#include "net/tcp.h"

namespace dtrain::rpc::test {

using namespace dtrain::test;

class Relay {
 public:
  // Whenever a random number of bytes in [bytes_min, bytes_max) has been passed on, both ways together, all connections
  // are closed. What was read and not passed on is lost.
  struct Cuts {
    int64_t bytes_min = 0, bytes_max = 0;
    uint64_t seed = 1;
  };

  Relay(uint16_t to, const Cuts& cuts)
      : to_(to),
        cuts_(cuts),
        random_(cuts.seed, Use::kTest),
        left_(next_cut()),
        listener_(net::open_listening_sockets({"127.0.0.1", 0}, 0).value()) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    woken_ = UniqueFd(ends[0]);
    wake_ = UniqueFd(ends[1]);
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    wake_.close();
    thread_.join();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  [[nodiscard]] uint16_t port() const { return listener_.port; }
  [[nodiscard]] int cut_count() const { return cut_count_; }

 private:
  struct Connection {
    UniqueFd caller, called;
    bool broken = false;
  };

  void run() {
    std::vector<pollfd> watched;
    while (true) {
      watched = {{woken_.get(), POLLIN, 0}, {listener_.sockets[0].get(), POLLIN, 0}};
      for (const Connection& c : connections_) {
        watched.push_back({c.caller.get(), POLLIN, 0});
        watched.push_back({c.called.get(), POLLIN, 0});
      }
      poll_until(watched, std::nullopt);
      if (watched[0].revents != 0) return;
      for (size_t i = 0; i < connections_.size(); i++) {
        Connection& c = connections_[i];
        if (watched[2 + 2 * i].revents != 0) pass_on(c, c.caller, c.called);
        if (watched[3 + 2 * i].revents != 0) pass_on(c, c.called, c.caller);
      }
      std::erase_if(connections_, [](const Connection& c) { return c.broken; });
      if (watched[1].revents != 0) accept();
    }
  }

  void accept() {
    UniqueFd caller(::accept4(listener_.sockets[0].get(), nullptr, nullptr, SOCK_CLOEXEC));
    UniqueFd called;
    const Result<> is_called = catching([&]() -> Result<> {
      called = connect_to(to_);
      return {};
    });
    if (!caller.open() || !is_called) return;
    const timeval limit{.tv_sec = 10, .tv_usec = 0};  // of a peer that reads nothing
    for (const int fd : {caller.get(), called.get()}) {
      ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    }
    connections_.push_back({std::move(caller), std::move(called)});
  }

  void pass_on(Connection& connection, const UniqueFd& from, const UniqueFd& to) {
    if (connection.broken) return;
    const ssize_t count = ::read(from.get(), bytes_.data(), bytes_.size());
    const int64_t passed = std::clamp<int64_t>(count, 0, left_);
    connection.broken = count <= 0 || !send_all(to, static_cast<size_t>(passed));
    left_ -= passed;
    if (left_ > 0) return;
    for (Connection& c : connections_) c.broken = true;
    cut_count_++;
    left_ = next_cut();
  }

  bool send_all(const UniqueFd& to, size_t size) {
    size_t sent = 0;
    while (sent < size) {
      const ssize_t count = ::send(to.get(), bytes_.data() + sent, size - sent, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<size_t>(count);
    }
    return true;
  }

  int64_t next_cut() { return cuts_.bytes_min + random_.below(cuts_.bytes_max - cuts_.bytes_min); }

  const uint16_t to_;
  const Cuts cuts_;
  RandomStream random_;
  int64_t left_;  // bytes until the next cut
  const net::ListeningSockets listener_;
  UniqueFd woken_, wake_;
  std::vector<Connection> connections_;
  std::array<char, 1 << 16> bytes_ = {};
  std::atomic<int> cut_count_ = 0;
  std::thread thread_;
};

}  // namespace dtrain::rpc::test
