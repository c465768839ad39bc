// Requests as bytes: whole, in pieces, cut short, broken and too long.
#include "net/http/http_message.h"

#include <vector>

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::net;

namespace {

using State = HttpRequestReader::State;
using Method = HttpRequest::Method;

const std::string kBrowser =
    "GET /?x=1&token=sec%3Bret+%2b&token=2 HTTP/1.1\r\nHost: localhost:8080\r\nACCEPT:  text/html \t\r\n"
    "Cookie: a=1\r\nEmpty:\r\n\r\n";

void take_in_pieces(HttpRequestReader& reader, std::string_view bytes, size_t piece) {
  for (size_t at = 0; at < bytes.size(); at += piece) reader.take(bytes.substr(at, piece));
}

HttpRequest request_in(std::string_view bytes, size_t piece = 1 << 20) {
  HttpRequestReader reader;
  take_in_pieces(reader, bytes, piece);
  REQUIRE(reader.state() == State::kComplete);
  return reader.request();
}

// The status with which the request is refused; 0 if it is incomplete, 200 if it is complete.
int status_for(std::string_view bytes, size_t piece = 1 << 20) {
  HttpRequestReader reader;
  take_in_pieces(reader, bytes, piece);
  if (reader.state() == State::kRefused) CHECK_FALSE(std::string_view(reader.refusal().why).empty());
  return reader.state() == State::kIncomplete ? 0 : reader.state() == State::kComplete ? 200 : reader.refusal().status;
}

bool has_unread(std::string_view bytes) {
  HttpRequestReader reader;
  reader.take(bytes);
  return reader.has_unread_bytes();
}

}  // namespace

TEST_CASE("a request is read, in pieces of any size", "[net]") {
  for (size_t piece = 1; piece <= kBrowser.size(); piece++) {
    INFO(piece);
    const HttpRequest request = request_in(kBrowser, piece);
    CHECK(request.method == Method::kGet);
    CHECK(request.target == "/?x=1&token=sec%3Bret+%2b&token=2");
    CHECK(request.path() == "/");
    CHECK(request.parameter("token") == "sec;ret +");
    CHECK(request.parameter("x") == "1");
    CHECK(request.parameter("tok").empty());
    CHECK(request.headers.size() == 4);
    CHECK(request.header("accept") == "text/html");
    REQUIRE(request.find_header("empty") != nullptr);
    CHECK(request.find_header("empty")->empty());
    CHECK(request.find_header("Accept") == nullptr);
    CHECK_FALSE(request.is_http_1_0);
    CHECK_FALSE(request.has_body);
  }
}

TEST_CASE("HTTP/1.0, other methods and other line ends are read", "[net]") {
  CHECK(request_in("HEAD /%6detrics%2f% HTTP/1.0\r\n\r\n").path() == "/metrics/%");
  CHECK(request_in("HEAD / HTTP/1.0\r\n\r\n").is_http_1_0);
  CHECK(request_in("HEAD / HTTP/1.0\r\n\r\n").method == Method::kHead);
  CHECK(request_in("\r\n\nGET / HTTP/1.1\nHost: a\n\n").header("host") == "a");
  CHECK(request_in("GET / HTTP/1.1\r\nHost: a\r\nFolded: one\r\n two\r\n\r\n").header("folded") == "one two");
  CHECK(request_in("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n").method == Method::kOther);
  CHECK(request_in("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").method == Method::kOther);
}

TEST_CASE("what follows the head is seen and not read", "[net]") {
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\n";
  CHECK_FALSE(has_unread(head + "\r\n"));
  CHECK_FALSE(has_unread(head + "Content-Length: 0\r\n\r\n"));
  CHECK(has_unread(head + "\r\nGET"));
  CHECK(has_unread(head + "Content-Length: 5\r\n\r\n"));
  CHECK(has_unread(head + "Transfer-Encoding: chunked\r\n\r\n"));
  CHECK(has_unread(head + "Transfer-Encoding: gzip\r\n\r\n"));
  CHECK(has_unread(head));
  CHECK(has_unread("no request\r\n\r\n"));
  CHECK(request_in(head + "Content-Length: 5\r\n\r\nGET /").target == "/");
}

TEST_CASE("what is no request is refused as soon as that is clear", "[net]") {
  for (const std::string text : {"GET\r\n",
                                 "get /",
                                 "NONE /",
                                 "PRI * HTTP/2.0\r\n\r\n",
                                 "\x16\x03\x01",
                                 "GET / FTP/1.1",
                                 "GET / HTTP/1.12",
                                 "GET / HTTP/1.1\r\nno header\r\n",
                                 "GET / HTTP/1.1\r\n: a\r\n",
                                 "GET / HTTP/1.1\r\nA: \x01",
                                 "GET / HTTP/1.1\r\nA : 1",
                                 "GET / HTTP/1.1\r\nA: b\rc",
                                 "GET /\x01",
                                 "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n",
                                 "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n",
                                 "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                                 "GET / HTTP/1.1\r\n\r\n",
                                 "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
                                 "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
                                 "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n"}) {
    INFO(text);
    CHECK(status_for(text) == 400);
    CHECK(status_for(text, 1) == 400);
  }
  CHECK(status_for(std::string("GET / HTTP/1.1\r\nA: \0\r\n", 21)) == 400);
  CHECK(status_for(std::string(3000, '\0')) == 400);
  CHECK(status_for("GET / HTTP/9.9\r\nHost: a\r\n\r\n") == 505);
  CHECK(status_for("GET /\r\n\r\n") == 505);
}

TEST_CASE("the address, the headers and their number have limits", "[net]") {
  const std::string begin = "GET / HTTP/1.1\r\nHost: a\r\n", end = "\r\n";
  const auto with_target = [&](size_t bytes) { return "GET /" + std::string(bytes - 1, 'a') + begin.substr(5) + end; };
  const auto with_headers = [&](size_t number) {
    std::string text = begin;
    for (size_t i = 1; i < number; i++) text += "A: b\r\n";
    return text + end;
  };
  const auto with_bytes = [&](size_t bytes) {
    const std::string before = begin + "A: ";
    return before + std::string(bytes - before.size() - 4, 'a') + "\r\n" + end;
  };
  for (const size_t piece : {size_t{1}, size_t{4096}, size_t{1} << 20}) {
    INFO(piece);
    CHECK(status_for(with_target(HttpRequestReader::kTargetBytesMax), piece) == 200);
    CHECK(status_for(with_target(HttpRequestReader::kTargetBytesMax + 1), piece) == 414);
    CHECK(status_for(with_headers(HttpRequestReader::kHeadersMax), piece) == 200);
    CHECK(status_for(with_headers(HttpRequestReader::kHeadersMax + 1), piece) == 431);
    CHECK(status_for(with_bytes(HttpRequestReader::kHeadBytesMax), piece) == 200);
    CHECK(status_for(with_bytes(HttpRequestReader::kHeadBytesMax + 1), piece) == 431);
    CHECK(status_for(std::string(100000, '\n'), piece) == 431);
  }
}

TEST_CASE("a request that is cut short anywhere is incomplete", "[net]") {
  for (size_t size = 0; size < kBrowser.size(); size++) {
    INFO(size);
    CHECK(status_for(kBrowser.substr(0, size)) == 0);
    CHECK(status_for(kBrowser.substr(0, size), 1) == 0);
  }
}

TEST_CASE("a request with any bit flipped is read or refused, the same in pieces", "[net]") {
  size_t complete = 0, refused = 0;
  for (size_t bit = 0; bit < kBrowser.size() * 8; bit++) {
    INFO(bit);
    std::string bytes = kBrowser;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const int status = status_for(bytes);
    CHECK(status_for(bytes, 1) == status);
    complete += status == 200 ? 1 : 0;
    refused += status >= 400 ? 1 : 0;
    if (status == 200) CHECK(request_in(bytes, 1) == request_in(bytes));
  }
  CHECK(complete > kBrowser.size());
  CHECK(refused > kBrowser.size());
}

TEST_CASE("the head of an answer has its status in words, and the headers", "[net]") {
  CHECK(http_answer_head(200, {}) == "HTTP/1.1 200 OK\r\n\r\n");
  CHECK(http_answer_head(431, {{"Connection", "close"}, {"A", "b"}}) ==
        "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nA: b\r\n\r\n");
}
