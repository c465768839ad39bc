#include "observe/http/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/poll_until.h"

namespace dtrain::observe {
namespace {

constexpr size_t kRequestBytesMax = 32 << 10;
constexpr std::string_view kHeadEnd = "\r\n\r\n";

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

// Receives once, unless nothing more can be received. Returns what to wait for if nothing has come.
short Connection::receive() {
  if (received_ >= kRequestBytesMax) end_ = -1;
  if (end_) return 0;
  std::array<char, 4096> bytes;
  const Moved moved = bytes_->receive(bytes.data(), bytes.size());
  if (moved.wait_for != 0) return moved.wait_for;
  if (moved.bytes <= 0) {
    end_ = moved.bytes;
    return 0;
  }
  request_.append(bytes.data(), static_cast<size_t>(moved.bytes));
  received_ += static_cast<size_t>(moved.bytes);
  return 0;
}

short Connection::gather() {
  size_t searched = 0;
  while (!end_ && request_.find(kHeadEnd, searched) == std::string::npos) {
    searched = request_.size() - std::min(request_.size(), kHeadEnd.size() - 1);
    if (const short wait_for = receive(); wait_for != 0) return wait_for;
  }
  return 0;
}

ssize_t Connection::read(char* to, size_t size) {
  while (read_ == request_.size()) {
    if (end_) return *end_;
    request_.clear();
    read_ = 0;
    const short wait_for = receive();
    if (wait_for != 0 && !is_ready(socket_, wait_for, request_until_)) return -1;
  }
  const size_t some = std::min(size, request_.size() - read_);
  std::memcpy(to, request_.data() + read_, some);
  read_ += some;
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
