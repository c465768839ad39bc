#include "net/acceptor.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/poll_until.h"
#include "base/thread.h"

namespace dtrain::net {
namespace {

// The number of connections accepted from one listener per turn. The turn then handles the callers, so that a useful
// connection does not wait for a thousand useless ones.
constexpr int kAcceptedAtOnce = 16;

// The pause after accept has failed for lack of a resource. Only another part of the program or of the system can
// release the resource.
constexpr std::chrono::milliseconds kPause{100};
constexpr std::chrono::minutes kWarnAgain{1};

bool is_gone(int error) {
  // After one of these errors, the next connection can be accepted: only the peer of this one has disconnected, or a
  // signal has interrupted the call.
  return error == ECONNABORTED || error == EINTR || error == EPROTO;
}

}  // namespace

bool SilentPeer::waits() {
  char byte = 0;
  const ssize_t got = ::recv(connection_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0) take_(std::move(connection_));
  return got < 0 && (errno == EAGAIN || errno == EINTR);
}

AcceptorLimits AcceptorLimits::of_process() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = 1024;
  const int descriptors = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
  return {.waiting_max = static_cast<size_t>(std::clamp(descriptors / 8, 16, 1024)),
          .descriptors_max = descriptors - std::clamp(descriptors / 8, 16, 256)};
}

Acceptor::Acceptor(std::vector<UniqueFd> listeners, AcceptorLimits limits, Warn warn, Meet meet)
    : listeners_(std::move(listeners)), limits_(limits), warn_(std::move(warn)), meet_(std::move(meet)) {}

bool Acceptor::may_accept(Clock::time_point now) const {
  if (now < resume_) return false;
  return waiting_.size() < limits_.waiting_max || waiting_.empty() || now >= waiting_.front().since + limits_.grace;
}

void Acceptor::watch(std::vector<pollfd>& watched) const {
  for (const Waiting& one : waiting_) watched.push_back(one.caller->watched());
  if (!may_accept(Clock::now())) return;
  for (const UniqueFd& listener : listeners_) {
    watched.push_back({.fd = listener.get(), .events = POLLIN, .revents = 0});
  }
}

std::optional<Acceptor::Clock::time_point> Acceptor::wakes_at() const {
  const auto now = Clock::now();
  std::optional<Clock::time_point> first;
  const auto wake = [&first](Clock::time_point at) { first = std::min(first.value_or(at), at); };
  for (const Waiting& one : waiting_) wake(one.caller->until());
  if (now < resume_) {
    wake(resume_);
  } else if (!may_accept(now)) {
    wake(waiting_.front().since + limits_.grace);
  }
  return first;
}

void Acceptor::turn(std::span<const pollfd> polled) {
  check_waiting(polled.first(std::min(polled.size(), waiting_.size())));
  for (const UniqueFd& listener : listeners_) accept_some(listener);
}

// Handles the callers. A caller that throws an exception is closed.
void Acceptor::check_waiting(std::span<const pollfd> polled) {
  struct Sweep {
    std::deque<Waiting>& waiting;
    ~Sweep() {
      std::erase_if(waiting, [](const Waiting& one) { return one.caller == nullptr; });
    }
  } const sweep{waiting_};
  const auto now = Clock::now();
  for (size_t i = 0; i < waiting_.size(); i++) {
    std::unique_ptr<Caller> caller = std::move(waiting_[i].caller);
    const bool has_news = polled.empty() || polled[i].revents != 0;
    if (has_news && !caller->waits()) continue;
    if (now >= caller->until()) {
      caller->on_timeout();
    } else {
      waiting_[i].caller = std::move(caller);
    }
  }
}

void Acceptor::accept_some(const UniqueFd& listener) {
  for (int i = 0; i < kAcceptedAtOnce && may_accept(Clock::now()); i++) {
    UniqueFd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.open()) {
      take(std::move(connection));
    } else if (errno == EAGAIN) {
      return;
    } else if (!is_gone(errno)) {
      const int error = errno;
      if (close_oldest()) continue;
      resume_ = Clock::now() + kPause;
      return refuse(std::strerror(error));
    }
  }
}

// Takes a new connection. A new descriptor gets the lowest free number, so if its number is descriptors_max, that many
// descriptors are in use.
void Acceptor::take(UniqueFd connection) {
  if (connection.get() >= limits_.descriptors_max && !close_oldest()) {
    return refuse("the remaining file descriptors of this process are reserved for files");
  }
  std::unique_ptr<Caller> caller = meet_(std::move(connection));
  if (!caller->waits()) return;
  if (waiting_.size() >= limits_.waiting_max) close_oldest();
  add(std::move(caller));
}

void Acceptor::add(std::unique_ptr<Caller> caller) {
  waiting_.push_back({std::move(caller), Clock::now()});
}

bool Acceptor::close_oldest() {
  if (waiting_.empty()) return false;
  waiting_.pop_front();
  return true;
}

void Acceptor::refuse(const char* why) {
  const auto now = Clock::now();
  if (refused_ && now - *refused_ < kWarnAgain) return;
  refused_ = now;
  warn_(fmt::format(
      "refused a connection: {}. If the job needs more connections, raise the limit of open files (ulimit -n)", why));
}

AcceptorThread::AcceptorThread(std::vector<UniqueFd> listeners, AcceptorLimits limits, const Log& log,
                               Acceptor::Meet meet)
    : log_(log),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      acceptor_(
          std::move(listeners), limits, [this](const std::string& text) { log_.warn("{}", text); }, std::move(meet)) {
  DT_CHECK(wake_.open(), "eventfd: {}", std::strerror(errno));
  thread_ = std::thread([this] { serve(); });
}

AcceptorThread::~AcceptorThread() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  (void)::eventfd_write(wake_.get(), 1);
  thread_.join();
}

void AcceptorThread::add(std::unique_ptr<Caller> caller) {
  {
    const MutexLock lock(mutex_);
    added_.push_back(std::move(caller));
  }
  (void)::eventfd_write(wake_.get(), 1);
}

void AcceptorThread::serve() {
  name_thread("accept");
  bool running = true;
  while (running) {
    const Result<> outcome = catching(
        [&]() -> Result<> {
          running = turn();
          return {};
        },
        "a new connection");
    if (!outcome) log_.error("{}", outcome.error().line());
  }
}

// Runs one turn of the thread. Returns false if the destructor has asked the thread to end.
bool AcceptorThread::turn() {
  std::vector<pollfd> watched(1, {.fd = wake_.get(), .events = POLLIN, .revents = 0});
  acceptor_.watch(watched);
  if (poll_until(watched, acceptor_.wakes_at()) < 0) return true;  // the poll was interrupted by a signal
  if (watched[0].revents != 0) {
    eventfd_t ignored = 0;
    (void)::eventfd_read(wake_.get(), &ignored);
  }
  acceptor_.turn(std::span(watched).subspan(1));
  const MutexLock lock(mutex_);
  for (std::unique_ptr<Caller>& caller : added_) acceptor_.add(std::move(caller));
  added_.clear();
  return !stop_;
}

}  // namespace dtrain::net
