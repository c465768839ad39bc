#include "observe/http/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/poll_until.h"

namespace dtrain::observe {
namespace {

constexpr size_t kRequestBytesMax = 32 << 10;

// Whether the socket is ready for `events` in time.
bool is_ready(const UniqueFd& socket, short events, std::chrono::steady_clock::time_point until) {
  std::array<pollfd, 1> watched{{{.fd = socket.get(), .events = events, .revents = 0}}};
  int ready = 0;
  do {
    ready = poll_until(watched, until);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

Connection::Connection(UniqueFd socket, std::chrono::milliseconds patience)
    : socket_(std::move(socket)), patience_(patience), request_until_(Clock::now() + patience) {}

ssize_t Connection::read(char* to, size_t size) {
  while (begin_ == end_) {
    if (received_ >= kRequestBytesMax || !is_ready(socket_, POLLIN, request_until_)) return -1;
    const ssize_t got = ::recv(socket_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got == 0) return 0;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0) return -1;
    received_ += static_cast<size_t>(got);
    begin_ = 0;
    end_ = static_cast<size_t>(got);
  }
  const size_t some = std::min(size, end_ - begin_);
  std::memcpy(to, buffer_.data() + begin_, some);
  begin_ += some;
  return static_cast<ssize_t>(some);
}

ssize_t Connection::write(const char* from, size_t size) {
  const Clock::time_point until = Clock::now() + patience_;
  for (size_t done = 0; done < size && !is_broken_;) {
    const ssize_t put = ::send(socket_.get(), from + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put >= 0) {
      done += static_cast<size_t>(put);
    } else if (errno == EAGAIN) {
      is_broken_ = !is_ready(socket_, POLLOUT, until);
    } else if (errno != EINTR) {
      is_broken_ = true;
    }
  }
  return is_broken_ ? -1 : static_cast<ssize_t>(size);
}

}  // namespace dtrain::observe
