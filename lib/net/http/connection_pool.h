// Accepts connections and has a fixed number of threads serve them. A client occupies no thread before its request has
// arrived, so clients that send nothing, or a part of a request, keep nobody else waiting for longer than `grace`.
#pragma once

#include <poll.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "net/http/connection.h"

namespace dtrain::net {

class ConnectionPool {
 public:
  struct Limits {
    size_t threads = 8;
    // Connections that wait for bytes of their clients. For one more, the one that has waited longest is closed if it has
    // waited for `grace`. Until then the new client waits in the system's queue: a client whose request is on its way must
    // not lose its place to those who send none.
    size_t silent = 128;
    std::chrono::milliseconds grace{};
    size_t waiting = 256;  // connections with a request that no thread has taken yet; more are turned away
  };
  using Open = std::function<std::unique_ptr<Connection>(UniqueFd)>;  // of a socket that does not block
  // Answers a request that is complete or refused. Any of the threads calls it, once for each connection.
  using Serve = std::function<void(Connection&)>;
  ConnectionPool(std::vector<UniqueFd> listeners, Limits limits, Open open, Serve serve);
  // Waits for the connections that are being served; the others are closed.
  ~ConnectionPool();
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  struct Silent {
    std::unique_ptr<Connection> connection;
    short wait_for = 0;  // POLLIN or POLLOUT
    Clock::time_point since;
  };
  void watch();
  [[nodiscard]] bool may_accept() const;
  [[nodiscard]] std::optional<Clock::time_point> next_turn(bool accepts) const;
  bool take_returned();
  void sort_silent(std::span<const pollfd> watched);
  void accept_from(const UniqueFd& listener);
  bool read(Silent& silent);
  void enqueue(std::unique_ptr<Connection> connection);
  void serve_waiting();
  void serve(std::unique_ptr<Connection> connection);

  const std::vector<UniqueFd> listeners_;
  const Limits limits_;
  const Open open_;
  const Serve serve_;
  const UniqueFd wake_;
  std::deque<Silent> silent_;  // of the watching thread; the longest waiting first
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<std::unique_ptr<Connection>> waiting_ DT_GUARDED_BY(mutex_);
  std::vector<Silent> returned_ DT_GUARDED_BY(mutex_);  // to the watching thread: answered, but more arrives
  bool stop_ DT_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace dtrain::net
