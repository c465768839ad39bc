#include "net/http/byte_stream.h"

#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <string_view>

#include "net/http/http_server.h"
#include "net/openssl.h"

namespace dtrain::net {
namespace {

constexpr std::string_view kNotTls =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    "This port speaks HTTPS: open it as https://.\n";

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(int socket) : socket_(socket) {}

  Moved receive(char* to, size_t size) override { return moved(::recv(socket_, to, size, MSG_DONTWAIT), POLLIN); }
  Moved send(const char* from, size_t size) override {
    return moved(::send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT), POLLOUT);
  }
  void end() override { ::shutdown(socket_, SHUT_WR); }

 private:
  static Moved moved(ssize_t bytes, short event) {
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return {.bytes = 0, .wait_for = event};
    return {.bytes = bytes};
  }

  const int socket_;
};

using openssl::Bio;
using openssl::Certificate;
using openssl::Freed;
using openssl::Key;
using openssl::no_password;
using openssl::reader;

class TlsStream final : public ByteStream {
 public:
  TlsStream(SSL_CTX* context, int socket) : socket_(socket), ssl_(SSL_new(context)) {
    if (ssl_ == nullptr || SSL_set_fd(ssl_.get(), socket) != 1) throw std::bad_alloc();
    SSL_set_accept_state(ssl_.get());
  }
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  Moved receive(char* to, size_t size) override {
    ERR_clear_error();
    return moved(SSL_read(ssl_.get(), to, bounded(size)));
  }
  Moved send(const char* from, size_t size) override {
    ERR_clear_error();
    return moved(SSL_write(ssl_.get(), from, bounded(size)));
  }
  void end() override {
    ERR_clear_error();
    if (!is_broken_ && SSL_is_init_finished(ssl_.get())) SSL_shutdown(ssl_.get());
    ::shutdown(socket_, SHUT_WR);
  }

 private:
  static int bounded(size_t size) { return static_cast<int>(std::min<size_t>(size, std::numeric_limits<int>::max())); }

  Moved moved(int result) {
    if (result > 0) return {.bytes = result};
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ: return {.bytes = 0, .wait_for = POLLIN};
      case SSL_ERROR_WANT_WRITE: return {.bytes = 0, .wait_for = POLLOUT};
      case SSL_ERROR_ZERO_RETURN: return {};
      default: break;
    }
    is_broken_ = true;
    if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_HTTP_REQUEST) {
      (void)::send(socket_, kNotTls.data(), kNotTls.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    return {.bytes = -1};
  }

  const int socket_;
  const std::unique_ptr<SSL, Freed<SSL_free>> ssl_;
  bool is_broken_ = false;
};

bool use_chain(SSL_CTX* context, const std::string& text) {
  const Bio source = reader(text);
  const Certificate own(PEM_read_bio_X509(source.get(), nullptr, no_password, nullptr));
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) return false;
  while (const Certificate next{PEM_read_bio_X509(source.get(), nullptr, no_password, nullptr)}) {
    if (SSL_CTX_add1_chain_cert(context, next.get()) != 1) return false;
  }
  ERR_clear_error();  // because OpenSSL reports the end of the text as an error
  return true;
}

bool use_key(SSL_CTX* context, const std::string& text) {
  const Bio source = reader(text);
  const Key key(PEM_read_bio_PrivateKey(source.get(), nullptr, no_password, nullptr));
  return key != nullptr && SSL_CTX_use_PrivateKey(context, key.get()) == 1 && SSL_CTX_check_private_key(context) == 1;
}

std::string reason() {
  const char* text = ERR_reason_error_string(ERR_peek_last_error());
  return text == nullptr ? "the file is not in PEM format" : text;
}

}  // namespace

std::unique_ptr<ByteStream> plain_stream(int socket) {
  return std::make_unique<PlainStream>(socket);
}

Result<std::unique_ptr<TlsContext>> TlsContext::make(const ServerCertificate& certificate) {
  ERR_clear_error();
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  if (context == nullptr) throw std::bad_alloc();
  std::unique_ptr<TlsContext> made(new TlsContext(context));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (!use_chain(context, certificate.chain)) return fail(Code::kUsage, "the certificate cannot be used: {}", reason());
  if (!use_key(context, certificate.key)) return fail(Code::kUsage, "the key cannot be used: {}", reason());
  return made;
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

std::unique_ptr<ByteStream> TlsContext::accept(int socket) const {
  return std::make_unique<TlsStream>(context_, socket);
}

}  // namespace dtrain::net
