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
  // tls: null for HTTP; it must outlive the connection.
  Connection(UniqueFd socket, std::chrono::milliseconds patience, const TlsContext* tls);

  // Reads what the client has sent. Returns 0 if nothing more is expected: the request is complete or refused, the
  // client has closed, or, after finish(), the socket can be closed. Otherwise returns POLLIN or POLLOUT: call it again
  // when the socket is ready for this.
  short gather();
  [[nodiscard]] const HttpRequestReader& request() const { return reader_; }
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  // The time at which the connection is closed if gather() is still waiting.
  [[nodiscard]] std::chrono::steady_clock::time_point wait_until() const { return wait_until_; }

  // Returns false if the client has not accepted all bytes within the patience.
  bool write(std::string_view bytes);
  // Ends the answer. Its result has the same meaning as gather()'s.
  short finish();
  [[nodiscard]] bool is_finished() const { return is_finished_; }
  // Sends an answer without TLS, if the client expects that, as much as can be sent immediately. Ends the connection.
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
