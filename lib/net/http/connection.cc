#include "net/http/connection.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "base/poll_until.h"

namespace dtrain::net {
namespace {

constexpr size_t kDiscardedBytesMax = 1 << 20;

// True if the socket becomes ready for `events` before the deadline.
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
      is_encrypted_(tls != nullptr),
      bytes_(tls == nullptr ? plain_stream(socket_.get()) : tls->accept(socket_.get())),
      patience_(patience),
      wait_until_(Clock::now() + patience) {}

short Connection::gather() {
  if (is_finished_) return discard();
  while (!is_over_ && reader_.state() == HttpRequestReader::State::kIncomplete) {
    std::array<char, 4096> bytes;
    const Moved moved = bytes_->receive(bytes.data(), bytes.size());
    if (moved.wait_for != 0) return moved.wait_for;
    is_over_ = moved.bytes <= 0;
    if (!is_over_) reader_.take({bytes.data(), static_cast<size_t>(moved.bytes)});
  }
  return 0;
}

bool Connection::write(std::string_view bytes) {
  const Clock::time_point until = Clock::now() + patience_;
  while (!bytes.empty() && !is_broken_) {
    const Moved moved = bytes_->send(bytes.data(), bytes.size());
    if (moved.wait_for != 0) {
      is_broken_ = !is_ready(socket_, moved.wait_for, until);
    } else if (moved.bytes > 0) {
      bytes.remove_prefix(static_cast<size_t>(moved.bytes));
    } else {
      is_broken_ = true;
    }
  }
  return !is_broken_;
}

short Connection::finish() {
  is_finished_ = true;
  wait_until_ = Clock::now() + patience_;
  bytes_->end();
  return is_broken_ ? short{0} : discard();
}

// Reads and drops bytes that are not needed, such as the body of a request. If the socket were closed while it holds
// bytes, the client would see a broken connection and might lose the answer.
short Connection::discard() {
  std::array<char, 4096> bytes;
  while (discarded_ < kDiscardedBytesMax) {
    const ssize_t some = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (some > 0) {
      discarded_ += static_cast<size_t>(some);
    } else {
      const bool is_open = some < 0 && (errno == EAGAIN || errno == EINTR);
      return is_open && reader_.has_unread_bytes() ? short{POLLIN} : short{0};
    }
  }
  return 0;
}

void Connection::turn_away(std::string_view answer) {
  if (is_finished_) return;
  if (!is_encrypted_) (void)bytes_->send(answer.data(), answer.size());
  finish();
}

}  // namespace dtrain::net
