// HTTPS for HttpServer: OpenSSL over sockets that do not block.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "observe/http/byte_stream.h"

struct ssl_ctx_st;

namespace dtrain::observe {

// What a server shows to its clients. PEM texts.
struct ServerCertificate {
  std::string chain;  // the server's certificate, then those of the authorities between it and one that clients know
  std::string key;
};

// Thread-safe. TLS 1.2 and later; clients show no certificate.
class TlsContext {
 public:
  // Code::kUsage if OpenSSL does not take the certificate or the key, with its reason.
  static Result<std::unique_ptr<TlsContext>> make(const ServerCertificate& certificate);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

  // The server's side of a connection. The socket must outlive it, and the process must ignore SIGPIPE. A client that
  // does not speak TLS gets an answer in plain HTTP that says so.
  [[nodiscard]] std::unique_ptr<ByteStream> accept(int socket) const;

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* const context_;
};

}  // namespace dtrain::observe
