#include "net/acceptor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/poll_until.h"
#include "base/thread.h"

namespace dtrain::net {
namespace {

// Connections accepted from one listener per turn. The turn then looks at the silent ones, so that a useful connection
// does not wait behind a thousand useless ones.
constexpr int kAcceptedAtOnce = 16;

// How long to wait after accept has failed for lack of a resource, which only another owner can release.
constexpr std::chrono::milliseconds kPause{100};
constexpr std::chrono::minutes kWarnAgain{1};

bool is_gone(int error) {
  return error == ECONNABORTED || error == EINTR || error == EPROTO;  // the peer went away: take the next one
}

}  // namespace

AcceptorLimits AcceptorLimits::of_process(std::chrono::milliseconds silence) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = 1024;
  const int descriptors = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
  return {.silence = silence,
          .silent_max = static_cast<size_t>(std::clamp(descriptors / 8, 16, 1024)),
          .descriptors_max = descriptors - std::clamp(descriptors / 8, 16, 256)};
}

Acceptor::Acceptor(std::vector<UniqueFd> listeners, AcceptorLimits limits, Log log,
                   std::function<void(UniqueFd)> hand_over)
    : listeners_(std::move(listeners)),
      limits_(limits),
      log_(std::move(log)),
      hand_over_(std::move(hand_over)),
      end_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  DT_CHECK(end_.open(), "eventfd: {}", std::strerror(errno));
  silent_.reserve(limits_.silent_max + 1);
  watched_.reserve(1 + silent_.capacity() + listeners_.size());
  thread_ = std::thread([this] { serve(); });
}

Acceptor::~Acceptor() {
  (void)::eventfd_write(end_.get(), 1);
  thread_.join();
}

void Acceptor::serve() {
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

// Returns false if the destructor has asked the thread to end.
bool Acceptor::turn() {
  const bool accepts = Clock::now() >= resume_;
  watched_.assign(1, {.fd = end_.get(), .events = POLLIN, .revents = 0});
  for (const SilentConnection& one : silent_)
    watched_.push_back({.fd = one.connection.get(), .events = POLLIN, .revents = 0});
  for (const UniqueFd& listener : listeners_) {
    if (accepts) watched_.push_back({.fd = listener.get(), .events = POLLIN, .revents = 0});
  }
  std::optional<Clock::time_point> until;
  if (!silent_.empty()) until = silent_.front().until;
  if (!accepts) until = std::min(until.value_or(resume_), resume_);
  if (poll_until(watched_, until) < 0) return true;  // a signal
  if (watched_[0].revents != 0) return false;
  check_silent();
  for (const UniqueFd& listener : listeners_) {
    if (accepts) accept_some(listener);
  }
  return true;
}

void Acceptor::check_silent() {
  const auto now = Clock::now();
  size_t place = 1;  // in watched_
  const auto is_settled = [&](SilentConnection& one) {
    const Received received = watched_[place++].revents != 0 ? peek(one.connection) : Received::kNothing;
    if (received == Received::kData) hand_over_(std::move(one.connection));
    return received != Received::kNothing || now >= one.until;
  };
  std::erase_if(silent_, is_settled);
}

Acceptor::Received Acceptor::peek(const UniqueFd& connection) {
  char byte = 0;
  const ssize_t got = ::recv(connection.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0) return Received::kData;
  return got < 0 && (errno == EAGAIN || errno == EINTR) ? Received::kNothing : Received::kEnd;
}

void Acceptor::accept_some(const UniqueFd& listener) {
  for (int i = 0; i < kAcceptedAtOnce; i++) {
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

// A new descriptor gets the lowest free number, so one with the number descriptors_max means that as many are in use.
void Acceptor::take(UniqueFd connection) {
  if (connection.get() >= limits_.descriptors_max && !close_oldest()) {
    return refuse("the remaining file descriptors of this process are reserved for files");
  }
  if (peek(connection) == Received::kData) return hand_over_(std::move(connection));
  if (silent_.size() >= limits_.silent_max) close_oldest();
  silent_.push_back({std::move(connection), Clock::now() + limits_.silence});
}

bool Acceptor::close_oldest() {
  if (silent_.empty()) return false;
  silent_.erase(silent_.begin());
  return true;
}

void Acceptor::refuse(const char* why) {
  const auto now = Clock::now();
  if (refused_ && now - *refused_ < kWarnAgain) return;
  refused_ = now;
  log_.warn("refused a connection: {}. If the job needs more connections, raise the limit of open files (ulimit -n)",
            why);
}

}  // namespace dtrain::net
