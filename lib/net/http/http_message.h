// The heads of HTTP messages: reads that of a request, writes that of an answer. The library http_parser does the
// reading; no other file includes it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::net {

struct HttpHeader {
  std::string name;   // in a request: in lower case
  std::string value;  // without spaces around it
  bool operator==(const HttpHeader&) const = default;
};

struct HttpRequest {
  enum class Method { kGet, kHead, kOther };
  Method method = Method::kOther;
  std::string target;  // as sent: "/page?token=a%20b". Begins with "/" if the method is GET or HEAD
  std::vector<HttpHeader> headers;
  bool is_http_1_0 = false;  // otherwise HTTP/1.1
  bool has_body = false;     // which is never read
  bool operator==(const HttpRequest&) const = default;

  // Without the query, and with "%41" decoded to "A".
  [[nodiscard]] std::string path() const;
  // The decoded value of the first "name=value" in the query; empty if there is none.
  [[nodiscard]] std::string parameter(std::string_view name) const;
  // The value of the first header with this name, which is given in lower case. Null if there is none.
  [[nodiscard]] const std::string* find_header(std::string_view name) const;
  // The same, and an empty text if there is none.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

// Why a request gets no other answer.
struct HttpRefusal {
  int status = 0;
  const char* why = "";
};

// Reads the head of one request from bytes as they arrive. Whatever they are, it keeps at most kHeadBytesMax of them.
class HttpRequestReader {
 public:
  static constexpr size_t kHeadBytesMax = 32 << 10;   // more: status 431
  static constexpr size_t kTargetBytesMax = 8 << 10;  // more: status 414
  static constexpr size_t kHeadersMax = 100;          // more: status 431
  enum class State {
    kIncomplete,
    kComplete,  // request() is the request
    kRefused,   // refusal() says why
  };

  HttpRequestReader();
  ~HttpRequestReader();
  HttpRequestReader(const HttpRequestReader&) = delete;
  HttpRequestReader& operator=(const HttpRequestReader&) = delete;

  // Takes the next bytes and returns the new state. Once the state is not kIncomplete, takes no more.
  State take(std::string_view bytes);
  [[nodiscard]] State state() const;
  [[nodiscard]] const HttpRequest& request() const;
  [[nodiscard]] const HttpRefusal& refusal() const;
  // Whether the head is followed by bytes that the client has sent, or is going to send. Nobody reads them.
  [[nodiscard]] bool has_unread_bytes() const;

 private:
  struct Parser;
  const std::unique_ptr<Parser> parser_;
};

// "HTTP/1.1 200 OK", the headers and an empty line. Names and values must have no line ends.
std::string http_answer_head(int status, const std::vector<HttpHeader>& headers);

}  // namespace dtrain::net
