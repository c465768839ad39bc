#include "observe/http/connection.h"

#include <algorithm>
#include <array>
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

Connection::Connection(UniqueFd socket, std::chrono::milliseconds patience, const TlsContext* tls)
    : socket_(std::move(socket)),
      bytes_(tls == nullptr ? plain_stream(socket_.get()) : tls->accept(socket_.get())),
      patience_(patience),
      request_until_(Clock::now() + patience) {}

ssize_t Connection::read(char* to, size_t size) {
  while (begin_ == end_) {
    if (received_ >= kRequestBytesMax) return -1;
    const Moved moved = bytes_->receive(buffer_.data(), buffer_.size());
    if (moved.wait_for != 0) {
      if (!is_ready(socket_, moved.wait_for, request_until_)) return -1;
      continue;
    }
    if (moved.bytes <= 0) return moved.bytes;
    received_ += static_cast<size_t>(moved.bytes);
    begin_ = 0;
    end_ = static_cast<size_t>(moved.bytes);
  }
  const size_t some = std::min(size, end_ - begin_);
  std::memcpy(to, buffer_.data() + begin_, some);
  begin_ += some;
  return static_cast<ssize_t>(some);
}

ssize_t Connection::write(const char* from, size_t size) {
  const Clock::time_point until = Clock::now() + patience_;
  for (size_t done = 0; done < size && !is_broken_;) {
    const Moved moved = bytes_->send(from + done, size - done);
    if (moved.wait_for != 0) {
      is_broken_ = !is_ready(socket_, moved.wait_for, until);
    } else if (moved.bytes > 0) {
      done += static_cast<size_t>(moved.bytes);
    } else {
      is_broken_ = true;
    }
  }
  return is_broken_ ? -1 : static_cast<ssize_t>(size);
}

}  // namespace dtrain::observe
