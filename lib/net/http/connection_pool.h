// Accepts connections and serves them with a fixed number of threads. A client occupies no thread before its request
// has arrived, so clients that send nothing, or only a part of a request, delay others by at most `grace`.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "net/acceptor.h"
#include "net/http/connection.h"

namespace dtrain::net {

class ConnectionPool {
 public:
  struct Limits {
    size_t threads = 8;
    // `silent`: the maximum number of connections that wait for bytes from their clients. `grace`: when there are more,
    // how long each connection still keeps its place (AcceptorLimits). This protects a client whose request is on its
    // way from clients that send nothing.
    size_t silent = 128;
    std::chrono::milliseconds grace{};
    // Maximum number of connections with a request that no thread handles yet; further ones are turned away.
    size_t waiting = 256;
  };
  // Makes a connection of a socket that does not block.
  using Open = std::function<std::unique_ptr<Connection>(UniqueFd)>;
  // Answers a request that is complete or refused. Any of the threads calls it, once for each connection.
  using Serve = std::function<void(Connection&)>;
  ConnectionPool(std::vector<UniqueFd> listeners, Limits limits, const Log& log, const Open& open, Serve serve);
  // Waits for the connections that are being served, and closes all others.
  ~ConnectionPool();
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

 private:
  class HttpCaller;
  void enqueue(std::unique_ptr<Connection> connection);
  void serve_waiting();
  void serve(std::unique_ptr<Connection> connection);

  const Limits limits_;
  const Serve serve_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<std::unique_ptr<Connection>> waiting_ DT_GUARDED_BY(mutex_);
  bool stop_ DT_GUARDED_BY(mutex_) = false;
  std::optional<AcceptorThread> acceptor_;
  std::vector<std::thread> threads_;
};

}  // namespace dtrain::net
