// Accepts connections and hands them to a fixed number of threads.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"

namespace dtrain::observe {

class ConnectionPool {
 public:
  struct Limits {
    size_t threads = 8;
    size_t waiting = 64;  // accepted connections that no thread has taken yet; more are closed at once
  };
  // `serve` is called by any of the threads with a connection that does not block.
  ConnectionPool(std::vector<UniqueFd> listeners, Limits limits, std::function<void(UniqueFd)> serve);
  // Waits for the connections that are being served; those that wait are closed.
  ~ConnectionPool();
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

 private:
  void accept_all();
  void accept_from(const UniqueFd& listener);
  void serve_waiting();

  const std::vector<UniqueFd> listeners_;
  const Limits limits_;
  const std::function<void(UniqueFd)> serve_;
  const UniqueFd end_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<UniqueFd> waiting_ DT_GUARDED_BY(mutex_);
  bool stop_ DT_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace dtrain::observe
