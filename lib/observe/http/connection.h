// A connection as httplib reads and writes it: with deadlines, and with a bound on what a client may send.
#pragma once

#include <httplib.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "observe/http/byte_stream.h"
#include "observe/http/tls.h"

namespace dtrain::observe {

class Connection final : public httplib::Stream {
 public:
  // tls: null for HTTP; it must outlive the connection.
  Connection(UniqueFd socket, std::chrono::milliseconds patience, const TlsContext* tls);

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

  UniqueFd socket_;
  const std::unique_ptr<ByteStream> bytes_;
  const std::chrono::milliseconds patience_;
  const Clock::time_point request_until_;
  std::array<char, 4096> buffer_{};
  size_t begin_ = 0, end_ = 0;  // of what is in the buffer
  size_t received_ = 0;
  bool is_broken_ = false;
};

}  // namespace dtrain::observe
