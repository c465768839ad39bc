#include <algorithm>
#include <array>

#include "fuzz/refusal.h"
#include "fuzz/targets.h"
#include "net/http/access.h"
#include "net/http/http_message.h"

namespace dtrain::fuzz {

using namespace dtrain::net;
using namespace dtrain::net;

namespace {

using State = HttpRequestReader::State;
using Method = HttpRequest::Method;

constexpr uint16_t kPort = 8080;
constexpr std::string_view kControlCharacters("\r\n\0", 3);

State read_in_pieces(HttpRequestReader& reader, std::string_view bytes, size_t piece) {
  for (size_t at = 0; at < bytes.size() && reader.state() == State::kIncomplete; at += piece) {
    reader.take(bytes.substr(at, piece));
  }
  return reader.state();
}

void check_limits(const HttpRequest& request) {
  DT_CHECK(request.target.size() <= HttpRequestReader::kTargetBytesMax, "the target has {} bytes",
           request.target.size());
  DT_CHECK(request.headers.size() <= HttpRequestReader::kHeadersMax, "{} headers", request.headers.size());
  size_t bytes = request.target.size();
  for (const HttpHeader& header : request.headers) bytes += header.name.size() + header.value.size();
  DT_CHECK(bytes <= HttpRequestReader::kHeadBytesMax, "{} bytes are kept", bytes);
}

void check_headers(const HttpRequest& request) {
  for (const HttpHeader& header : request.headers) {
    DT_CHECK(!header.name.empty() && std::ranges::none_of(header.name, [](char c) { return c >= 'A' && c <= 'Z'; }),
             "the header '{}' has a name that is not in lower case", header.name);
    DT_CHECK(header.value.find_first_of(kControlCharacters) == std::string::npos, "the value of {} has a line end",
             header.name);
  }
  const auto hosts = std::ranges::count(request.headers, "host", &HttpHeader::name);
  DT_CHECK(hosts == 1 || (hosts == 0 && request.is_http_1_0), "the request has {} headers Host", hosts);
  const std::string_view host = request.header("host");
  DT_CHECK(
      !names_loopback(host) || host.starts_with("localhost") || host.starts_with("127.") || host.starts_with("[::1]"),
      "'{}' names this host", host);
}

// What is served.
void check_again(const HttpRequest& request) {
  DT_CHECK(request.path().starts_with('/'), "the path is {}", request.path());
  std::string text = std::string(request.method == Method::kGet ? "GET " : "HEAD ") + request.target +
                     (request.is_http_1_0 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
  for (const HttpHeader& header : request.headers) text += header.name + ": " + header.value + "\r\n";
  text += "\r\n";
  // Written in another form, a request near the limit may be longer than it was.
  if (text.size() > HttpRequestReader::kHeadBytesMax) return;
  HttpRequestReader again;
  DT_CHECK(again.take(text) == State::kComplete, "the written request is refused: {}", again.refusal().why);
  DT_CHECK(again.request() == request, "the written request is read as another");
}

void check_token(const HttpRequest& request) {
  const std::string token = request.parameter("token");
  if (token.empty()) return;
  const std::string cookie = "before=1; " + token_cookie(token, kPort, true);
  const bool is_accepted = has_token({.authorization = {}, .cookie = cookie, .page_token = {}}, kPort,
                                     [&](std::string_view shown) { return shown == token; });
  DT_CHECK(is_accepted, "the cookie of a token is not accepted");
}

void check_access(const HttpRequest& request) {
  const auto accepts = [](std::string_view token) { return token == "secret"; };
  const std::string_view authorization = request.header("authorization"), cookie = request.header("cookie");
  if (!has_token({.authorization = authorization, .cookie = cookie, .page_token = {}}, kPort, accepts)) return;
  DT_CHECK(authorization == "Bearer secret" || cookie.find("=736563726574") != std::string_view::npos,
           "a request without the token is accepted");
}

}  // namespace

bool read_request_bytes(std::string_view bytes) {
  HttpRequestReader reader;
  const State state = read_in_pieces(reader, bytes, std::max<size_t>(bytes.size(), 1));
  for (const size_t piece : {1, 7, 4096}) {
    HttpRequestReader other;
    const bool is_same = read_in_pieces(other, bytes, piece) == state &&
                         (state != State::kComplete || other.request() == reader.request());
    DT_CHECK(is_same, "pieces of {} bytes are read as another request", piece);
  }
  check_limits(reader.request());
  if (state == State::kIncomplete) {
    DT_CHECK(bytes.size() < HttpRequestReader::kHeadBytesMax, "the reader waits after {} bytes", bytes.size());
    return false;
  }
  if (state == State::kRefused) {
    const HttpRefusal& refusal = reader.refusal();
    DT_CHECK(std::ranges::count(std::array{400, 414, 431, 505}, refusal.status) == 1, "status {}", refusal.status);
    DT_CHECK(!std::string_view(refusal.why).empty(), "the refusal says nothing");
    return false;
  }
  const HttpRequest& request = reader.request();
  check_headers(request);
  check_token(request);
  check_access(request);
  if (request.method != Method::kOther) check_again(request);
  return true;
}

}  // namespace dtrain::fuzz
