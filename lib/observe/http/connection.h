// A connection as httplib reads and writes it: with deadlines, and with a bound on what a client may send.
#pragma once

#include <httplib.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "observe/http/byte_stream.h"
#include "observe/http/tls.h"

namespace dtrain::observe {

class Connection final : public httplib::Stream {
 public:
  // tls: null for HTTP; it must outlive the connection.
  Connection(UniqueFd socket, std::chrono::milliseconds patience, const TlsContext* tls);

  // Takes what the client has sent. Returns 0 if the head of the request has arrived or no more of it will come: the
  // request can be served. Else POLLIN or POLLOUT: call it again when the socket is ready for this.
  short gather();
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  // When the whole request must have arrived.
  [[nodiscard]] std::chrono::steady_clock::time_point request_until() const { return request_until_; }

  // -1 if the whole request has not arrived within the patience, or is longer than kRequestBytesMax.
  ssize_t read(char* to, size_t size) override;
  // Returns `size`; -1 if the client has not taken all bytes within the patience.
  ssize_t write(const char* from, size_t size) override;
  [[nodiscard]] bool is_readable() const override { return true; }
  [[nodiscard]] bool is_writable() const override { return !is_broken_; }
  // The server does not ask who the client is.
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  // httplib only compares it with the largest descriptor that select() can handle, which is not used here.
  [[nodiscard]] socket_t socket() const override { return 0; }

 private:
  using Clock = std::chrono::steady_clock;
  short receive();

  UniqueFd socket_;
  const std::unique_ptr<ByteStream> bytes_;
  const std::chrono::milliseconds patience_;
  const Clock::time_point request_until_;
  std::string request_;  // what has been received and not forgotten
  size_t read_ = 0;      // bytes of it that httplib has read
  size_t received_ = 0;
  std::optional<ssize_t> end_;  // no more can be received: what read() returns then
  bool is_broken_ = false;
};

}  // namespace dtrain::observe
