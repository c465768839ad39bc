// A client's connection: one request, one answer, with deadlines and with a limit on what the client may send.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "base/unique_fd.h"
#include "net/http/byte_stream.h"
#include "net/http/http_message.h"

namespace dtrain::net {

class Connection {
 public:
  // tls: null for plain HTTP; otherwise it must outlive the connection.
  Connection(UniqueFd socket, std::chrono::milliseconds patience, const TlsContext* tls);

  // Reads what the client has sent. Returns 0 if nothing more is expected: the request is complete or refused, the
  // client has closed, or, after finish(), the socket can be closed. Otherwise returns POLLIN or POLLOUT; call it again
  // when the socket is ready for that event.
  short gather();
  [[nodiscard]] const HttpRequestReader& request() const { return reader_; }
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  // The time at which the connection is closed if gather() is still waiting.
  [[nodiscard]] std::chrono::steady_clock::time_point wait_until() const { return wait_until_; }

  // Writes bytes. Returns false if the client has not accepted all of them within the patience.
  bool write(std::string_view bytes);
  // Ends the answer. The result has the same meaning as that of gather().
  short finish();
  [[nodiscard]] bool is_finished() const { return is_finished_; }
  // Ends the connection. Without TLS, it first sends `answer`, as far as that is possible immediately.
  void turn_away(std::string_view answer);

 private:
  using Clock = std::chrono::steady_clock;
  short discard();

  const UniqueFd socket_;
  const bool is_encrypted_;
  const std::unique_ptr<ByteStream> bytes_;
  const std::chrono::milliseconds patience_;
  Clock::time_point wait_until_;
  HttpRequestReader reader_;
  bool is_over_ = false;  // nothing more can be received
  bool is_broken_ = false;
  bool is_finished_ = false;
  size_t discarded_ = 0;
};

}  // namespace dtrain::net
