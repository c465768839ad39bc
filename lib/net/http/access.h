// Decides who may read from the server: the rules of HttpOptions for one request.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace dtrain::net {

// The parts of a request that authenticate its sender.
struct Credentials {
  std::string_view authorization;  // the contents of these headers; empty if a header is absent
  std::string_view cookie;
  std::string_view page_token;  // value of "?token=", which only pages accept
};

// True if any of the credentials contains a token that `accepts_token` accepts. `port` is part of the cookie's name,
// because browsers share cookies between all ports of a host.
bool has_token(const Credentials& credentials, uint16_t port,
               const std::function<bool(std::string_view)>& accepts_token);

// The value of Set-Cookie for a client that has presented this token. If is_encrypted, browsers send the cookie only
// over HTTPS.
std::string token_cookie(std::string_view token, uint16_t port, bool is_encrypted);

// Whether the header Host names this host by a name or address of the loopback interface.
bool names_loopback(std::string_view host);

}  // namespace dtrain::net
