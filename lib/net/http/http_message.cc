#include "net/http/http_message.h"

#include <http_parser.h>

#include <algorithm>
#include <iterator>
#include <optional>

namespace dtrain::net {
namespace {

constexpr const char* kHost = "host";

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

// Decodes "%41" to "A". A "%" that is not followed by two hexadecimal digits is not changed.
std::string decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); i++) {
    const auto high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
    const auto low = high ? hex_digit(text[i + 2]) : std::nullopt;
    result += low ? static_cast<char>(*high * 16 + *low) : text[i];
    if (low) i += 2;
  }
  return result;
}

// Decodes a parameter, in which a "+" means a space: forms of web pages send it so.
std::string decoded_parameter(std::string_view text) {
  std::string spaced(text);
  std::ranges::replace(spaced, '+', ' ');
  return decoded(spaced);
}

char lower_case(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < ' ' && c != '\t') || byte == 127;
}

HttpRequest::Method method_of(unsigned number) {
  if (number == HTTP_GET) return HttpRequest::Method::kGet;
  if (number == HTTP_HEAD) return HttpRequest::Method::kHead;
  return HttpRequest::Method::kOther;
}

}  // namespace

std::string HttpRequest::path() const {
  return decoded(std::string_view(target).substr(0, target.find('?')));
}

std::string HttpRequest::parameter(std::string_view name) const {
  const size_t query = target.find('?');
  std::string_view rest = query == std::string::npos ? std::string_view() : std::string_view(target).substr(query + 1);
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find('&'));
    if (one.starts_with(name) && one.substr(name.size()).starts_with('=')) {
      return decoded_parameter(one.substr(name.size() + 1));
    }
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
  }
  return "";
}

const std::string* HttpRequest::find_header(std::string_view name) const {
  const auto found = std::ranges::find(headers, name, &HttpHeader::name);
  return found == headers.end() ? nullptr : &found->value;
}

std::string_view HttpRequest::header(std::string_view name) const {
  const std::string* const value = find_header(name);
  return value == nullptr ? std::string_view() : *value;
}

// Parses with the library, which calls these functions with pieces of the request, of any size. A result other than 0
// ends the parsing.
struct HttpRequestReader::Parser {
  http_parser library{};
  State state = State::kIncomplete;
  HttpRequest request;
  HttpRefusal refused;
  size_t bytes = 0;  // bytes parsed so far
  bool is_in_value = false;
  bool has_unread = false;

  Parser() {
    http_parser_init(&library, HTTP_REQUEST);
    library.data = this;
  }

  int refuse(int status, const char* why) {
    state = State::kRefused;
    refused = {status, why};
    return -1;
  }

  int add_to_target(std::string_view piece) {
    if (request.target.size() + piece.size() > kTargetBytesMax) return refuse(414, "The address is too long.");
    request.target += piece;
    return 0;
  }

  int add_to_name(std::string_view piece) {
    if (request.headers.empty() || is_in_value) {
      if (request.headers.size() == kHeadersMax) return refuse(431, "The request has too many headers.");
      request.headers.emplace_back();
    }
    is_in_value = false;
    // Debian's build of the library accepts spaces in a name, for example before the colon.
    if (piece.find(' ') != std::string_view::npos) return refuse(400, "The name of a header has a space.");
    std::ranges::transform(piece, std::back_inserter(request.headers.back().name), lower_case);
    return 0;
  }

  int add_to_value(std::string_view piece) {
    // The library does not check the first byte of a value.
    if (std::ranges::any_of(piece, is_control)) return refuse(400, "A header has a control character.");
    request.headers.back().value += piece;
    is_in_value = true;
    return 0;
  }

  int finish() {
    request.method = method_of(library.method);
    if (library.http_major != 1) return refuse(505, "This server supports only HTTP/1.1 and HTTP/1.0.");
    request.is_http_1_0 = library.http_minor == 0;
    // If there were several Host headers, a proxy before this server might use a different one.
    const auto hosts = std::ranges::count(request.headers, kHost, &HttpHeader::name);
    if (hosts > 1 || (hosts == 0 && !request.is_http_1_0))
      return refuse(400, "The request must have exactly one Host header.");
    const bool is_served = request.method != HttpRequest::Method::kOther;
    if (is_served && !request.target.starts_with('/')) return refuse(400, "The path must begin with a slash.");
    for (HttpHeader& header : request.headers) {
      header.value.resize(header.value.find_last_not_of(" \t") + 1);
    }
    request.has_body = request.find_header("transfer-encoding") != nullptr || has_length();
    state = State::kComplete;
    http_parser_pause(&library, 1);
    return 0;
  }

  [[nodiscard]] bool has_length() const {
    const std::string_view length = request.header("content-length");
    return length.find_first_not_of('0') != std::string_view::npos;
  }

  // The callbacks for the library.
  static Parser& of(http_parser* library) { return *static_cast<Parser*>(library->data); }
  static int on_url(http_parser* library, const char* at, size_t size) { return of(library).add_to_target({at, size}); }
  static int on_name(http_parser* library, const char* at, size_t size) { return of(library).add_to_name({at, size}); }
  static int on_value(http_parser* library, const char* at, size_t size) {
    return of(library).add_to_value({at, size});
  }
  static int on_head_end(http_parser* library) { return of(library).finish(); }

  State take(std::string_view more) {
    http_parser_settings settings{};
    settings.on_url = on_url;
    settings.on_header_field = on_name;
    settings.on_header_value = on_value;
    settings.on_headers_complete = on_head_end;
    const std::string_view taken = more.substr(0, kHeadBytesMax - bytes);
    const size_t parsed = http_parser_execute(&library, &settings, taken.data(), taken.size());
    bytes += taken.size();
    if (state == State::kComplete) {
      // The library pauses before the last byte of the head, not after it.
      has_unread = request.has_body || parsed + 1 < more.size();
    } else if (state == State::kIncomplete && HTTP_PARSER_ERRNO(&library) != HPE_OK) {
      refuse(400, "This is not an HTTP request.");
    } else if (state == State::kIncomplete && bytes == kHeadBytesMax) {
      refuse(431, "The headers of the request are too long.");
    }
    return state;
  }
};

HttpRequestReader::HttpRequestReader() : parser_(std::make_unique<Parser>()) {}
HttpRequestReader::~HttpRequestReader() = default;

HttpRequestReader::State HttpRequestReader::take(std::string_view bytes) {
  return bytes.empty() || state() != State::kIncomplete ? state() : parser_->take(bytes);
}

HttpRequestReader::State HttpRequestReader::state() const {
  return parser_->state;
}

const HttpRequest& HttpRequestReader::request() const {
  return parser_->request;
}

const HttpRefusal& HttpRequestReader::refusal() const {
  return parser_->refused;
}

bool HttpRequestReader::has_unread_bytes() const {
  return parser_->state != State::kComplete || parser_->has_unread;
}

std::string http_answer_head(int status, const std::vector<HttpHeader>& headers) {
  std::string head = "HTTP/1.1 " + std::to_string(status) + " ";
  head.append(http_status_str(static_cast<http_status>(status))).append("\r\n");
  for (const HttpHeader& header : headers) head.append(header.name).append(": ").append(header.value).append("\r\n");
  return head + "\r\n";
}

}  // namespace dtrain::net
