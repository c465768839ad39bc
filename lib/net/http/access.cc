#include "net/http/access.h"

#include <optional>

namespace dtrain::net {
namespace {

constexpr std::string_view kBearer = "Bearer ";

// The token in hexadecimal, because a token may contain any printable character, but a cookie may not.
std::string in_hex(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    hex += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return hex;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::string from_hex(std::string_view hex) {
  std::string text;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    const int high = digit_of(hex[i]), low = digit_of(hex[i + 1]);
    if (high < 0 || low < 0) return "";
    text += static_cast<char>(high * 16 + low);
  }
  return text;
}

std::string name_of_cookie(uint16_t port) {
  return "dtrain_token_" + std::to_string(port);
}

// The value of a cookie in the header "a=1; b=2".
std::optional<std::string_view> cookie_value(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const size_t end = header.find(';');
    std::string_view one = header.substr(0, end);
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (one.starts_with(name) && one.substr(name.size()).starts_with('=')) return one.substr(name.size() + 1);
    header.remove_prefix(end == std::string_view::npos ? header.size() : end + 1);
  }
  return std::nullopt;
}

}  // namespace

bool has_token(const Credentials& credentials, uint16_t port,
               const std::function<bool(std::string_view)>& accepts_token) {
  if (credentials.authorization.starts_with(kBearer) &&
      accepts_token(credentials.authorization.substr(kBearer.size()))) {
    return true;
  }
  if (!credentials.page_token.empty() && accepts_token(credentials.page_token)) return true;
  const auto cookie = cookie_value(credentials.cookie, name_of_cookie(port));
  return cookie && accepts_token(from_hex(*cookie));
}

std::string token_cookie(std::string_view token, uint16_t port, bool is_encrypted) {
  return name_of_cookie(port) + "=" + in_hex(token) + "; Path=/; HttpOnly; SameSite=Strict" +
         (is_encrypted ? "; Secure" : "");
}

bool names_loopback(std::string_view host) {
  if (host.starts_with('[')) return host.starts_with("[::1]");
  host = host.substr(0, host.rfind(':'));
  if (host == "localhost") return true;
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace dtrain::net
