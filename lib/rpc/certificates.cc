#include "rpc/certificates.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "net/connecting.h"
#include "net/openssl.h"

namespace dtrain::rpc {
namespace {

using Clock = std::chrono::steady_clock;

using net::openssl::Bio;
using net::openssl::Certificate;
using net::openssl::Freed;
using net::openssl::Key;
using net::openssl::no_password;
using net::openssl::reader;
using Store = std::unique_ptr<X509_STORE, Freed<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Connection = std::unique_ptr<SSL, Freed<SSL_free>>;

void free_chain(STACK_OF(X509) * chain) {
  sk_X509_free(chain);
}
using Chain = std::unique_ptr<STACK_OF(X509), Freed<free_chain>>;

std::vector<Certificate> certificates_in(const std::string& text) {
  std::vector<Certificate> all;
  const Bio source = reader(text);
  while (Certificate next{PEM_read_bio_X509(source.get(), nullptr, no_password, nullptr)})
    all.push_back(std::move(next));
  ERR_clear_error();  // otherwise OpenSSL's error queue would keep the end of the text as an error
  return all;
}

Key key_in(const std::string& text) {
  const Bio source = reader(text);
  return Key(PEM_read_bio_PrivateKey(source.get(), nullptr, no_password, nullptr));
}

Result<Store> store_of(const Tls& tls) {
  Store store(X509_STORE_new());
  const std::vector<Certificate> authorities = certificates_in(tls.authority);
  if (authorities.empty()) return fail(Code::kUsage, "--tls-ca: the file has no certificate in PEM format");
  for (const Certificate& authority : authorities) X509_STORE_add_cert(store.get(), authority.get());
  return store;
}

void speak_http2(SSL_CTX* context) {
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context, kHttp2, sizeof kHttp2);
}

Context context_of(const Tls& tls) {
  Context context(SSL_CTX_new(TLS_client_method()));
  const std::vector<Certificate> own = certificates_in(tls.certificate);
  const Key key = key_in(tls.key);
  Result<Store> store = store_of(tls);
  if (context == nullptr || own.empty() || key == nullptr || !store) return nullptr;
  SSL_CTX_use_certificate(context.get(), own[0].get());
  for (size_t i = 1; i < own.size(); i++) SSL_CTX_add1_chain_cert(context.get(), own[i].get());
  SSL_CTX_use_PrivateKey(context.get(), key.get());
  SSL_CTX_set_cert_store(context.get(), store->release());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  speak_http2(context.get());
  return context;
}

// Requires the certificate to be issued for `host`, the name or address that is connected to. gRPC requires the same.
void expect_name(SSL* connection, const std::string& host) {
  in6_addr address{};
  const bool is_address =
      ::inet_pton(AF_INET, host.c_str(), &address) == 1 || ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
  if (is_address) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), host.c_str());
  } else {
    SSL_set1_host(connection, host.c_str());
  }
}

// Repeats a non-blocking call on the connection until it is done. Returns nullopt if the deadline has passed, 0 if the
// call has failed.
template <class Call>
std::optional<int> complete(SSL* connection, Clock::time_point deadline, const Call& call) {
  for (;;) {
    ERR_clear_error();
    const int result = call();
    if (result > 0) return result;
    const int wanted = SSL_get_error(connection, result);
    if (wanted != SSL_ERROR_WANT_READ && wanted != SSL_ERROR_WANT_WRITE) return 0;
    pollfd socket{SSL_get_fd(connection), static_cast<short>(wanted == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT), 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0 || ::poll(&socket, 1, static_cast<int>(left.count()) + 1) == 0) return std::nullopt;
  }
}

bool is_alert(int reason) {
  return reason >= SSL_AD_REASON_OFFSET;
}

std::string refused_certificate(const std::string& peer) {
  const unsigned long error = ERR_peek_last_error();
  const char* text = is_alert(ERR_GET_REASON(error)) ? ERR_reason_error_string(error) : nullptr;
  return fmt::format("{} does not accept the certificate of this process (--tls-cert): {}", peer,
                     text != nullptr ? text : "it closes the connection; see its log file for the reason");
}

// Describes why the handshake failed. Nullopt if the peer closed the connection without a reason: another attempt may
// succeed.
std::optional<std::string> handshake_failure(SSL* connection, const std::string& peer) {
  const long verified = SSL_get_verify_result(connection);
  if (verified != X509_V_OK) {
    return fmt::format(
        "the certificate of {} is not accepted: {} (its names must include the address of the connection, and --tls-ca "
        "must have signed it)",
        peer, X509_verify_cert_error_string(verified));
  }
  const int code = ERR_GET_REASON(ERR_peek_last_error());
  if (code == 0 || code == SSL_R_UNEXPECTED_EOF_WHILE_READING) return std::nullopt;
  if (code == SSL_R_WRONG_VERSION_NUMBER || code == SSL_R_HTTP_REQUEST) {
    return fmt::format("{} does not use TLS: give all processes of the job --tls-cert, --tls-key and --tls-ca", peer);
  }
  return refused_certificate(peer);
}

std::optional<std::string> refusal_with(const Tls& tls, const net::Endpoint& peer, const UniqueFd& socket,
                                        Clock::time_point deadline) {
  const Context context = context_of(tls);
  if (context == nullptr) return std::nullopt;
  const Connection connection(SSL_new(context.get()));
  if (connection == nullptr || SSL_set_fd(connection.get(), socket.get()) != 1) return std::nullopt;
  expect_name(connection.get(), peer.host);
  const auto shaken = complete(connection.get(), deadline, [&] { return SSL_connect(connection.get()); });
  if (!shaken) return std::nullopt;
  if (*shaken == 0) return handshake_failure(connection.get(), to_text(peer));
  // A server that accepts the client's certificate begins to speak HTTP/2. A server that refuses it sends an alert or,
  // like gRPC's server, only closes the connection.
  char first = 0;
  const auto got = complete(connection.get(), deadline, [&] { return SSL_read(connection.get(), &first, 1); });
  if (got != 0) return std::nullopt;
  return refused_certificate(to_text(peer));
}

// Returns why a peer cannot be reached without TLS. It speaks TLS if it completes a handshake, or if it refuses a
// handshake because it requires a certificate.
std::optional<std::string> refusal_without(const net::Endpoint& peer, const UniqueFd& socket,
                                           Clock::time_point deadline) {
  const Context context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return std::nullopt;
  speak_http2(context.get());
  const Connection connection(SSL_new(context.get()));
  if (connection == nullptr || SSL_set_fd(connection.get(), socket.get()) != 1) return std::nullopt;
  const auto shaken = complete(connection.get(), deadline, [&] { return SSL_connect(connection.get()); });
  if (!shaken) return std::nullopt;
  if (*shaken == 0 && !is_alert(ERR_GET_REASON(ERR_peek_last_error()))) return std::nullopt;
  return fmt::format(
      "{} uses TLS, but this process does not: also give this process --tls-cert, --tls-key and --tls-ca",
      to_text(peer));
}

}  // namespace

Result<> check_certificates(const Tls& tls) {
  const std::vector<Certificate> own = certificates_in(tls.certificate);
  if (own.empty()) return fail(Code::kUsage, "--tls-cert: the file has no certificate in PEM format");
  const Key key = key_in(tls.key);
  if (key == nullptr)
    return fail(Code::kUsage, "--tls-key: the file has no key in PEM format, or the key has a password");
  if (X509_check_private_key(own[0].get(), key.get()) != 1) {
    return fail(Code::kUsage, "--tls-cert and --tls-key: the certificate does not belong to the key");
  }
  DT_TRY(const Store store, store_of(tls));
  const Chain chain(sk_X509_new_null());
  for (size_t i = 1; i < own.size(); i++) sk_X509_push(chain.get(), own[i].get());
  const StoreContext context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), own[0].get(), chain.get());
  if (X509_verify_cert(context.get()) == 1) return {};
  return fail(Code::kUsage, "--tls-cert: the certificate cannot be used with this --tls-ca: {}",
              X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get())));
}

std::optional<std::string> tls_refusal(const net::Endpoint& peer, const std::optional<Tls>& tls,
                                       std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  const Result<UniqueFd> socket = net::connect_to(peer, limit);
  if (!socket) return std::nullopt;
  return tls ? refusal_with(*tls, peer, *socket, deadline) : refusal_without(peer, *socket, deadline);
}

}  // namespace dtrain::rpc
