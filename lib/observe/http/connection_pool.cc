#include "observe/http/connection_pool.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/poll_until.h"
#include "base/thread.h"

namespace dtrain::observe {
namespace {

constexpr std::string_view kAllBusy =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
// When the process has no descriptor left, accepting again at once would only burn time.
constexpr std::chrono::milliseconds kNoDescriptor{200};

}  // namespace

ConnectionPool::ConnectionPool(std::vector<UniqueFd> listeners, Limits limits, std::function<void(UniqueFd)> serve)
    : listeners_(std::move(listeners)),
      limits_(limits),
      serve_(std::move(serve)),
      end_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  DT_CHECK(end_.open(), "no event descriptor");
  threads_.emplace_back([this] { accept_all(); });
  for (size_t i = 0; i < limits_.threads; i++) threads_.emplace_back([this] { serve_waiting(); });
}

ConnectionPool::~ConnectionPool() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    waiting_.clear();
    changed_.notify_all();
  }
  (void)eventfd_write(end_.get(), 1);
  for (std::thread& thread : threads_) thread.join();
}

void ConnectionPool::accept_all() {
  name_thread("http accept");
  std::vector<pollfd> watched{{.fd = end_.get(), .events = POLLIN, .revents = 0}};
  for (const UniqueFd& listener : listeners_) watched.push_back({.fd = listener.get(), .events = POLLIN, .revents = 0});
  while (true) {
    if (poll_until(watched, std::nullopt) < 0) continue;
    if (watched[0].revents != 0) return;
    for (size_t i = 0; i < listeners_.size(); i++) {
      if (watched[i + 1].revents != 0) accept_from(listeners_[i]);
    }
  }
}

void ConnectionPool::accept_from(const UniqueFd& listener) {
  UniqueFd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection.open()) {
    std::vector<pollfd> end{{.fd = end_.get(), .events = POLLIN, .revents = 0}};
    if (errno == EMFILE || errno == ENFILE) poll_until(end, std::chrono::steady_clock::now() + kNoDescriptor);
    return;
  }
  {
    const MutexLock lock(mutex_);
    if (waiting_.size() < limits_.waiting) {
      waiting_.push_back(std::move(connection));
      changed_.notify_one();
      return;
    }
  }
  (void)::send(connection.get(), kAllBusy.data(), kAllBusy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ConnectionPool::serve_waiting() {
  name_thread("http");
  while (true) {
    UniqueFd connection;
    {
      const MutexLock lock(mutex_);
      changed_.wait(mutex_, [this]() DT_REQUIRES(mutex_) { return stop_ || !waiting_.empty(); });
      if (stop_) return;
      connection = std::move(waiting_.front());
      waiting_.pop_front();
    }
    serve_(std::move(connection));
  }
}

}  // namespace dtrain::observe
