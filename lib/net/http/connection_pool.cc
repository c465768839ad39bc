#include "net/http/connection_pool.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/poll_until.h"
#include "base/thread.h"

namespace dtrain::net {
namespace {

constexpr std::string_view kAllBusy =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
// When the process has no descriptor left, accepting again at once would only burn time.
constexpr std::chrono::milliseconds kNoDescriptor{200};

}  // namespace

ConnectionPool::ConnectionPool(std::vector<UniqueFd> listeners, Limits limits, Open open, Serve serve)
    : listeners_(std::move(listeners)),
      limits_(limits),
      open_(std::move(open)),
      serve_(std::move(serve)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  DT_CHECK(wake_.open(), "no event descriptor");
  threads_.emplace_back([this] { watch(); });
  for (size_t i = 0; i < limits_.threads; i++) threads_.emplace_back([this] { serve_waiting(); });
}

ConnectionPool::~ConnectionPool() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    waiting_.clear();
    changed_.notify_all();
  }
  (void)eventfd_write(wake_.get(), 1);
  for (std::thread& thread : threads_) thread.join();
}

void ConnectionPool::watch() {
  name_thread("http accept");
  while (true) {
    std::vector<pollfd> watched{{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    const bool accepts = may_accept();
    for (const UniqueFd& listener : listeners_) {
      watched.push_back({.fd = accepts ? listener.get() : -1, .events = POLLIN, .revents = 0});
    }
    const size_t first_silent = watched.size();
    for (const Silent& one : silent_) {
      watched.push_back({.fd = one.connection->descriptor(), .events = one.wait_for, .revents = 0});
    }
    if (poll_until(watched, next_turn(accepts)) < 0) continue;
    sort_silent(std::span(watched).subspan(first_silent));
    if (watched[0].revents != 0 && !take_returned()) return;
    for (size_t i = 0; i < listeners_.size(); i++) {
      if (watched[i + 1].revents != 0 && may_accept()) accept_from(listeners_[i]);
    }
  }
}

bool ConnectionPool::may_accept() const {
  return silent_.size() < limits_.silent || Clock::now() >= silent_.front().since + limits_.grace;
}

// When a connection has waited too long, or may be closed in favor of another. Nullopt: not before something happens.
std::optional<ConnectionPool::Clock::time_point> ConnectionPool::next_turn(bool accepts) const {
  std::optional<Clock::time_point> until;
  if (!accepts) until = silent_.front().since + limits_.grace;
  for (const Silent& one : silent_) {
    until = std::min(until.value_or(one.connection->wait_until()), one.connection->wait_until());
  }
  return until;
}

// Of the silent connections, those whose request has arrived go to the threads, and those whose time is over are closed.
void ConnectionPool::sort_silent(std::span<const pollfd> watched) {
  const auto now = Clock::now();
  std::deque<Silent> still;
  for (size_t i = 0; i < watched.size(); i++) {
    Silent& one = silent_[i];
    const bool is_silent = watched[i].revents == 0 || read(one);
    if (is_silent && now < one.connection->wait_until()) still.push_back(std::move(one));
  }
  silent_ = std::move(still);
}

// Returns false if the pool ends.
bool ConnectionPool::take_returned() {
  eventfd_t ignored = 0;
  (void)eventfd_read(wake_.get(), &ignored);
  const MutexLock lock(mutex_);
  for (Silent& one : returned_) silent_.push_back(std::move(one));
  returned_.clear();
  return !stop_;
}

void ConnectionPool::accept_from(const UniqueFd& listener) {
  UniqueFd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection.open()) {
    std::vector<pollfd> wake{{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    if (errno == EMFILE || errno == ENFILE) poll_until(wake, Clock::now() + kNoDescriptor);
    return;
  }
  Silent one{open_(std::move(connection)), POLLIN, Clock::now()};
  if (!read(one)) return;
  if (silent_.size() >= limits_.silent) silent_.pop_front();
  silent_.push_back(std::move(one));
}

// Takes what has arrived. Returns whether there is more to wait for; otherwise the connection is closed or with the threads.
bool ConnectionPool::read(Silent& silent) {
  silent.wait_for = silent.connection->gather();
  if (silent.wait_for != 0) return true;
  if (silent.connection->is_finished()) return false;
  if (silent.connection->request().state() != HttpRequestReader::State::kIncomplete) {
    enqueue(std::move(silent.connection));
    return false;
  }
  // The client has gone, or has been told that this port speaks TLS, and is to get that answer.
  silent.wait_for = silent.connection->finish();
  return silent.wait_for != 0;
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
  if (wait_for == 0) return;
  {
    const MutexLock lock(mutex_);
    returned_.push_back({std::move(connection), wait_for, Clock::now()});
  }
  (void)eventfd_write(wake_.get(), 1);
}

}  // namespace dtrain::net
