#include "net/http/connection_pool.h"

#include <poll.h>

#include <string_view>
#include <utility>

#include "base/thread.h"

namespace dtrain::net {
namespace {

constexpr std::string_view kAllBusy =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

}  // namespace

// A client from which bytes are expected: the bytes of its request or, after the answer, bytes that are dropped.
class ConnectionPool::HttpCaller : public Caller {
 public:
  HttpCaller(ConnectionPool& pool, std::unique_ptr<Connection> connection, short wait_for)
      : pool_(pool), connection_(std::move(connection)), wait_for_(wait_for) {}

  bool waits() override {
    wait_for_ = connection_->gather();
    if (wait_for_ != 0) return true;
    if (connection_->is_finished()) return false;
    if (connection_->request().state() != HttpRequestReader::State::kIncomplete) {
      pool_.enqueue(std::move(connection_));
      return false;
    }
    // The client has closed, or it does not use TLS and must be sent an answer that says so.
    wait_for_ = connection_->finish();
    return wait_for_ != 0;
  }
  [[nodiscard]] pollfd watched() const override {
    return {.fd = connection_->descriptor(), .events = wait_for_, .revents = 0};
  }
  [[nodiscard]] Clock::time_point until() const override { return connection_->wait_until(); }

 private:
  ConnectionPool& pool_;
  std::unique_ptr<Connection> connection_;
  short wait_for_;  // POLLIN or POLLOUT: the event for which gather() or finish() waits
};

ConnectionPool::ConnectionPool(std::vector<UniqueFd> listeners, Limits limits, const Log& log, const Open& open,
                               Serve serve)
    : limits_(limits), serve_(std::move(serve)) {
  AcceptorLimits of_callers = AcceptorLimits::of_process();
  of_callers.waiting_max = limits.silent;
  of_callers.grace = limits.grace;
  acceptor_.emplace(std::move(listeners), of_callers, log, [this, open](UniqueFd socket) {
    return std::make_unique<HttpCaller>(*this, open(std::move(socket)), POLLIN);
  });
  for (size_t i = 0; i < limits_.threads; i++) threads_.emplace_back([this] { serve_waiting(); });
}

ConnectionPool::~ConnectionPool() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  acceptor_.reset();
}

void ConnectionPool::enqueue(std::unique_ptr<Connection> connection) {
  {
    const MutexLock lock(mutex_);
    if (waiting_.size() < limits_.waiting) {
      waiting_.push_back(std::move(connection));
      changed_.notify_one();
      return;
    }
  }
  connection->turn_away(kAllBusy);
}

void ConnectionPool::serve_waiting() {
  name_thread("http");
  while (true) {
    std::unique_ptr<Connection> connection;
    {
      const MutexLock lock(mutex_);
      changed_.wait(mutex_, [this]() DT_REQUIRES(mutex_) { return stop_ || !waiting_.empty(); });
      if (stop_) return;
      connection = std::move(waiting_.front());
      waiting_.pop_front();
    }
    serve(std::move(connection));
  }
}

void ConnectionPool::serve(std::unique_ptr<Connection> connection) {
  serve_(*connection);
  const short wait_for = connection->finish();
  if (wait_for != 0) acceptor_->add(std::make_unique<HttpCaller>(*this, std::move(connection), wait_for));
}

}  // namespace dtrain::net
