// Sends bytes to and receives bytes from a client over a non-blocking socket, either plain or encrypted with OpenSSL.
// The process must ignore SIGPIPE.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "base/error.h"

struct ssl_ctx_st;

namespace dtrain::net {

struct ServerCertificate;

struct Moved {
  ssize_t bytes = 0;  // if it is 0 and `wait_for` is 0, the client has closed; -1: the connection is broken
  // POLLIN or POLLOUT: nothing was transferred, and nothing can be until the socket is ready for this event
  short wait_for = 0;
};

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual Moved receive(char* to, size_t size) = 0;
  virtual Moved send(const char* from, size_t size) = 0;
  // Signals the client that everything has been sent. Nothing can be transferred afterwards.
  virtual void end() = 0;
};

// A stream without encryption. The socket must outlive it.
std::unique_ptr<ByteStream> plain_stream(int socket);

// TLS 1.2 and later; clients present no certificate. Thread-safe.
class TlsContext {
 public:
  // Code::kUsage if OpenSSL does not accept the certificate or the key; the message has OpenSSL's reason.
  static Result<std::unique_ptr<TlsContext>> make(const ServerCertificate& certificate);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

  // The server's side of a connection. The socket must outlive it. A client that does not use TLS gets an answer in
  // plain HTTP that tells it to use HTTPS.
  [[nodiscard]] std::unique_ptr<ByteStream> accept(int socket) const;

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* const context_;
};

}  // namespace dtrain::net
