// Parses the head of an HTTP request and formats the head of an answer. The parsing is done by the library http_parser,
// which only http_message.cc includes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::net {

struct HttpHeader {
  std::string name;   // in a request: in lower case
  std::string value;  // the header's value, without surrounding spaces
  bool operator==(const HttpHeader&) const = default;
};

struct HttpRequest {
  enum class Method { kGet, kHead, kOther };
  Method method = Method::kOther;
  std::string target;  // as sent: "/page?token=a%20b". If the method is GET or HEAD, it begins with "/"
  std::vector<HttpHeader> headers;
  bool is_http_1_0 = false;  // whether the request is HTTP/1.0; otherwise it is HTTP/1.1
  bool has_body = false;     // the body is never read
  bool operator==(const HttpRequest&) const = default;

  // The target without the query, and with "%41" decoded to "A".
  [[nodiscard]] std::string path() const;
  // The decoded value of the first "name=value" in the query; empty if there is none.
  [[nodiscard]] std::string parameter(std::string_view name) const;
  // The value of the first header with this name, which must be in lower case. Null if there is none.
  [[nodiscard]] const std::string* find_header(std::string_view name) const;
  // Like find_header, but returns an empty text if there is no such header.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

// Why a request is refused.
struct HttpRefusal {
  int status = 0;
  const char* why = "";
};

// Parses the head of one request from bytes as they arrive. Stores at most kHeadBytesMax bytes, whatever they are.
class HttpRequestReader {
 public:
  static constexpr size_t kHeadBytesMax = 32 << 10;   // a longer head is refused with status 431
  static constexpr size_t kTargetBytesMax = 8 << 10;  // a longer target is refused with status 414
  static constexpr size_t kHeadersMax = 100;          // a request with more headers is refused with status 431
  enum class State {
    kIncomplete,
    kComplete,  // the request is complete; request() returns it
    kRefused,   // the request is refused; refusal() has the reason
  };

  HttpRequestReader();
  ~HttpRequestReader();
  HttpRequestReader(const HttpRequestReader&) = delete;
  HttpRequestReader& operator=(const HttpRequestReader&) = delete;

  // Parses the next bytes and returns the new state. Once the state is not kIncomplete, it ignores further bytes.
  State take(std::string_view bytes);
  [[nodiscard]] State state() const;
  [[nodiscard]] const HttpRequest& request() const;
  [[nodiscard]] const HttpRefusal& refusal() const;
  // True if the client has sent or will send bytes after the head. They are never parsed.
  [[nodiscard]] bool has_unread_bytes() const;

 private:
  struct Parser;
  const std::unique_ptr<Parser> parser_;
};

// The first line ("HTTP/1.1 200 OK"), the headers and an empty line. Names and values must not contain line ends.
std::string http_answer_head(int status, const std::vector<HttpHeader>& headers);

}  // namespace dtrain::net
