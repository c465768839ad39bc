// The server that --metrics-addr starts: what it answers, whom it refuses, and that no client can hold
// it up.
#include "net/http/http_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/http/access.h"
#include "net/http_client.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::net;
using namespace dtrain::test;
using Catch::Contains;

namespace {

// Gives one event each time, and says "last" when it is asked for the last time.
class CountingEvents final : public EventStream {
 public:
  std::string take() override { return "data: " + std::to_string(number_++) + "\n\n"; }

 private:
  int number_ = 0;
};

struct Site {
  std::atomic<int> made = 0, done = 0;
  std::unique_ptr<HttpServer> server;

  explicit Site(HttpOptions options = {}) {
    options.flag = "--metrics-addr";
    options.where.host = "127.0.0.1";
    std::vector<HttpRoute> routes;
    routes.push_back({.path = "/metrics", .answer = [this]() -> HttpAnswer {
                        return {"text/plain", "made " + std::to_string(++made)};
                      }});
    routes.push_back({.path = "/big", .answer = []() -> HttpAnswer {
                        return {"text/plain", std::string(16 << 20, 'x')};
                      }});
    routes.push_back({.path = "/", .kind = HttpRoute::Kind::kPage, .answer = []() -> HttpAnswer {
                        return {"text/html", "<script nonce=\"@NONCE@\"></script><style nonce=\"@NONCE@\"></style>"};
                      }});
    routes.push_back({.path = "/do", .kind = HttpRoute::Kind::kAction, .answer = [this]() -> HttpAnswer {
                        done++;
                        return {"text/plain", "done"};
                      }});
    routes.push_back({.path = "/refused", .kind = HttpRoute::Kind::kAction, .answer = []() -> HttpAnswer {
                        return {"text/plain", "not now", 409};
                      }});
    routes.push_back({.path = "/events", .kind = HttpRoute::Kind::kStream, .open_stream = [] {
                        return std::make_unique<CountingEvents>();
                      }});
    auto started = HttpServer::start(std::move(options), std::move(routes), Log::silent());
    if (!started) throw std::runtime_error(started.error().text());
    server = std::move(*started);
  }
  [[nodiscard]] uint16_t port() const { return server->port(); }
};

bool accepts_secret(std::string_view token) {
  return token == "sec;ret";
}

std::string request_of(const std::string& method, const std::string& path, const std::string& rest = "") {
  return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + rest + "\r\n";
}

std::string many_headers(int number) {
  std::string headers;
  for (int i = 0; i < number; i++) headers += "A" + std::to_string(i) + ": b\r\n";
  return headers;
}

}  // namespace

TEST_CASE("only GET and HEAD of known paths are served, and no file", "[net]") {
  const Site site;
  const std::string got = http_get(site.port(), "/metrics");
  CHECK(status_of(got) == 200);
  CHECK(body_of(got) == "made 1");
  CHECK_THAT(got, Contains("X-Content-Type-Options: nosniff") && Contains("Cache-Control: no-store"));
  for (const char* path :
       {"/nothing", "/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/metrics/..", "//etc/passwd"}) {
    INFO(path);
    CHECK(status_of(http_get(site.port(), path)) == 404);
  }
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"}) {
    INFO(method);
    const UniqueFd connection = connect_to_port(site.port());
    send_text(connection, request_of(method, "/metrics", "Content-Length: 100000000\r\n"));
    const int status = status_of(read_answer(connection));
    CHECK(status == 405);
  }
  for (const char* path : {"/", "/big", "/events", "/nothing"}) {
    INFO(path);
    const UniqueFd head = connect_to_port(site.port());
    send_text(head, request_of("HEAD", path));
    const std::string answer = read_answer(head);
    CHECK(status_of(answer) == (std::string_view(path) == "/nothing" ? 404 : 200));
    CHECK(body_of(answer).empty());
    if (std::string_view(path) == "/big") CHECK_THAT(answer, Contains("Content-Length: 16777216\r\n"));
  }
}

// A page of another web site can send any GET to this host, but no header of this name.
TEST_CASE("an action is done only for GET with its header", "[net]") {
  HttpOptions options;
  options.answer_age_max = std::chrono::hours(1);
  const Site site(std::move(options));
  const auto status = [&](const std::string& method, const std::string& rest) {
    const UniqueFd connection = connect_to_port(site.port());
    send_text(connection, request_of(method, "/do", rest));
    return status_of(read_answer(connection));
  };
  CHECK(status("GET", "") == 403);
  CHECK(status("HEAD", "Dtrain-Action: 1\r\n") == 403);
  CHECK(status("POST", "Dtrain-Action: 1\r\n") == 405);
  CHECK(site.done == 0);
  CHECK(status("GET", "Dtrain-Action: 1\r\n") == 200);
  CHECK(status("GET", "Dtrain-Action: 1\r\n") == 200);  // too soon to be done again
  CHECK(site.done == 1);
  const UniqueFd refused = connect_to_port(site.port());
  send_text(refused, request_of("GET", "/refused", "Dtrain-Action: 1\r\n"));
  const std::string why = read_answer(refused);
  CHECK(status_of(why) == 409);
  CHECK(body_of(why) == "not now");
}

// The clients wait for an answer, and the patience is longer than they wait.
TEST_CASE("what is no request is refused at once, and ends nothing but the connection", "[net]") {
  HttpOptions options;
  options.patience = std::chrono::minutes(10);
  const Site site(std::move(options));
  const std::vector<std::pair<int, std::string>> texts = {{400, "GET\r\n\r\n"},
                                                          {400, std::string(3000, '\0')},
                                                          {400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"},
                                                          {400, "GET / HTTP/1.1\r\n\r\n"},
                                                          {505, "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n"},
                                                          {414, "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n\r\n"},
                                                          {431, "GET / HTTP/1.1\r\n" + std::string(100000, 'h')},
                                                          {431, "GET / HTTP/1.1\r\n" + many_headers(200) + "\r\n"}};
  for (const auto& [status, text] : texts) {
    INFO(text.substr(0, 40));
    const UniqueFd connection = connect_to_port(site.port());
    send_text(connection, text);
    const std::string answer = read_answer(connection);
    CHECK(status_of(answer) == status);
    CHECK_FALSE(body_of(answer).empty());
    CHECK_THAT(answer, Contains("Connection: close"));
  }
  for (const char* text : {"", "GET / HTTP/1.1\r\nHost: local"}) {
    const UniqueFd connection = connect_to_port(site.port());
    send_text(connection, text);
    ::shutdown(connection.get(), SHUT_WR);
    CHECK(read_answer(connection).empty());
  }
  CHECK(status_of(http_get(site.port(), "/metrics")) == 200);
}

// Nobody reads the rest. If the server closed the connection with unread bytes, the client would see a broken
// connection.
TEST_CASE("a client that sends more than a request gets its answer, and no broken connection", "[net]") {
  const Site site;
  const std::string body(200000, 'x');
  const std::vector<std::pair<int, std::string>> texts = {
      {200, request_of("GET", "/metrics", "Content-Length: 200000\r\n") + body},
      {200, request_of("GET", "/metrics", "Transfer-Encoding: chunked\r\n") + "30d40\r\n" + body},
      {200, request_of("GET", "/metrics", "Expect: 100-continue\r\nContent-Length: 200000\r\n")},
      {200, request_of("GET", "/metrics", "Range: bytes=0-,0-,0-,0-\r\nAccept-Encoding: gzip\r\n")},
      {200, request_of("GET", "/metrics") + request_of("GET", "/big") + body},
      {405, request_of("POST", "/metrics", "Content-Length: 200000\r\n") + body},
      {404, request_of("HEAD", "/none", "Content-Length: 200000\r\n") + body},
      {431, "GET / HTTP/1.1\r\nHost: localhost\r\nA: " + body}};
  for (const auto& [status, text] : texts) {
    INFO(text.substr(0, 80));
    const UniqueFd connection = connect_to_port(site.port());
    send_text(connection, text);
    const std::string answer = read_answer(connection);
    CHECK(status_of(answer) == status);
    CHECK(answer.find("HTTP/1.1", 1) == std::string::npos);
    int error = -1;
    socklen_t size = sizeof(error);
    CHECK(::getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0);
    CHECK(error == 0);
  }
}

TEST_CASE("an answer that cannot be made is an error, and the next one is tried", "[net]") {
  int asked = 0;
  std::vector<HttpRoute> routes;
  routes.push_back({.path = "/", .answer = [&]() -> HttpAnswer {
                      if (asked++ == 0) throw std::runtime_error("not yet");
                      return {"text/plain", "now"};
                    }});
  HttpOptions options{.flag = "--metrics-addr", .where = {.host = "127.0.0.1", .port = 0}};
  const auto server = must(HttpServer::start(std::move(options), std::move(routes), Log::silent()));
  CHECK(status_of(http_get(server->port(), "/")) == 500);
  CHECK(body_of(http_get(server->port(), "/")) == "now");
}

TEST_CASE("a token is asked for, and a browser gets a cookie for it", "[net]") {
  HttpOptions options;
  options.accepts_token = accepts_secret;
  const Site site(std::move(options));
  const auto status = [&](const std::string& path, const std::string& headers = "") {
    return status_of(http_get(site.port(), path, headers));
  };
  for (const char* path : {"/", "/metrics", "/events", "/nothing", "/metrics?token=sec%3Bret"}) {
    INFO(path);
    CHECK(status(path) == 401);
    CHECK(status(path, "Authorization: Bearer wrong\r\n") == 401);
    CHECK(status(path, "Authorization: Basic sec;ret\r\n") == 401);
  }
  CHECK(status("/metrics", "Authorization: Bearer sec;ret\r\n") == 200);
  CHECK(status("/?token=sec") == 401);
  CHECK_THAT(http_get(site.port(), "/metrics"), Contains("WWW-Authenticate: Bearer"));

  const std::string welcome = http_get(site.port(), "/?token=sec%3Bret");
  CHECK(status_of(welcome) == 303);
  CHECK_THAT(welcome, Contains("Location: /\r\n") && Contains("HttpOnly; SameSite=Strict"));
  const size_t at = welcome.find("Set-Cookie: ") + 12;
  const std::string cookie = welcome.substr(at, welcome.find(';', at) - at);
  CHECK(status("/", "Cookie: other=1; " + cookie + "\r\n") == 200);
  CHECK(status("/metrics", "Cookie: " + cookie + "\r\n") == 200);
  CHECK(status("/", "Cookie: " + cookie + "00\r\n") == 401);
  CHECK(status("/", "Cookie: x" + cookie + "\r\n") == 401);
}

TEST_CASE("a server on loopback answers no name of another site", "[net]") {
  HttpOptions options;
  options.only_local_names = true;
  const Site site(std::move(options));
  CHECK(status_of(http_get(site.port(), "/", "Host: evil.example:8080\r\n")) == 403);
  CHECK(status_of(http_get(site.port(), "/", "Host: 127.0.0.1:8080\r\n")) == 200);
  CHECK(names_loopback("localhost:1"));
  CHECK(names_loopback("[::1]:80"));
  CHECK_FALSE(names_loopback("127.example.org"));
  CHECK_FALSE(names_loopback("localhost.evil.example"));
  CHECK_FALSE(names_loopback(""));
}

TEST_CASE("a page may load nothing from elsewhere, and its scripts have a new number each time", "[net]") {
  const Site site;
  const std::string first = http_get(site.port(), "/"), second = http_get(site.port(), "/");
  CHECK_THAT(first, Contains("Content-Security-Policy: default-src 'none'; script-src 'nonce-"));
  CHECK_THAT(first, !Contains("@NONCE@"));
  const std::string nonce = body_of(first).substr(15, 32);
  CHECK_THAT(first, Contains("'nonce-" + nonce + "'") && Contains("style nonce=\"" + nonce));
  CHECK(body_of(first) != body_of(second));
}

TEST_CASE("an answer that is young enough is given again, however many ask", "[net]") {
  HttpOptions patient, impatient;
  patient.answer_age_max = std::chrono::hours(1);
  impatient.answer_age_max = std::chrono::milliseconds(0);
  const Site same(std::move(patient)), newest(std::move(impatient));
  for (int i = 0; i < 1000; i++) REQUIRE(body_of(http_get(same.port(), "/metrics")) == "made 1");
  CHECK(same.made == 1);
  for (int i = 1; i <= 3; i++) CHECK(body_of(http_get(newest.port(), "/metrics")) == "made " + std::to_string(i));
}

// The patience is longer than a client of this test waits for an answer. The clients that stop reading are fewer than
// the threads.
TEST_CASE("clients that stop reading or sending hold nothing up", "[net]") {
  HttpOptions options;
  options.patience = std::chrono::minutes(10);
  options.streams_max = 2;
  const Site site(std::move(options));
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 12; i++) {
    idle.push_back(connect_to_port(site.port(), 4096));
    send_text(idle.back(), i % 2 == 0 ? request_of("GET", "/big") : "GET /metr");
  }
  for (int i = 0; i < 20; i++) CHECK(status_of(http_get(site.port(), "/metrics")) == 200);
}

TEST_CASE("where clients that stop reading occupy all threads, others wait for the patience and no longer", "[net]") {
  HttpOptions options;
  options.patience = std::chrono::milliseconds(100);
  options.streams_max = 2;
  const Site site(std::move(options));
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 12; i++) {
    idle.push_back(connect_to_port(site.port(), 4096));
    send_text(idle.back(), request_of("GET", "/big"));
  }
  CHECK(status_of(http_get(site.port(), "/metrics")) == 200);
}

// Eight threads are occupied by clients that do not read, and 256 more requests wait. All others are refused.
TEST_CASE("where too many requests wait, others are refused at once", "[net]") {
  constexpr size_t kClients = 290, kServed = 8 + 256;
  HttpOptions options;
  options.patience = std::chrono::minutes(10);
  options.streams_max = 0;
  const Site site(std::move(options));
  std::vector<UniqueFd> clients;
  std::vector<pollfd> watched;
  for (size_t i = 0; i < kClients; i++) {
    clients.push_back(connect_to_port(site.port(), 4096));
    send_text(clients.back(), request_of("GET", "/big"));
    watched.push_back({.fd = clients.back().get(), .events = POLLIN, .revents = 0});
  }
  size_t refused = 0;
  while (refused < kClients - kServed) {
    REQUIRE(::poll(watched.data(), watched.size(), 60000) > 0);
    for (pollfd& one : watched) {
      if (one.revents == 0) continue;
      std::array<char, 12> begin{};
      const ssize_t got = ::recv(one.fd, begin.data(), begin.size(), 0);
      if (got == 12 && std::string_view(begin.data(), 12) == "HTTP/1.1 503") refused++;
      one.fd = -1;
    }
  }
}

// The patience is longer than a client of this test waits for an answer. There are more silent clients than threads,
// and in the end more than the server keeps.
TEST_CASE("clients that have not sent a whole request keep no other waiting", "[net]") {
  HttpOptions options;
  options.patience = std::chrono::minutes(10);
  options.streams_max = 1;
  Site site(std::move(options));
  std::vector<UniqueFd> stalled;
  for (const char* beginning : {"", "GET /metr", "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"}) {
    for (int i = 0; i < 50; i++) {
      stalled.push_back(connect_to_port(site.port()));
      send_text(stalled.back(), beginning);
      if (i % 10 == 9) CHECK(status_of(http_get(site.port(), "/metrics")) == 200);
    }
  }
  send_text(stalled.back(), "\r\n");  // the newest of them completes its request
  CHECK(status_of(read_answer(stalled.back())) == 200);
  CHECK(read_answer(stalled.front()).empty());  // the oldest was closed, without an answer
}

// More silent clients than the server keeps come before and after the one that then sends its request. They do not take
// its place, because it has not waited for the grace.
TEST_CASE("a client whose request is on its way keeps its place among silent ones", "[net]") {
  HttpOptions options;
  options.patience = options.grace = std::chrono::minutes(10);
  const Site site(std::move(options));
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 40; i++) silent.push_back(connect_to_port(site.port()));
  const UniqueFd honest = connect_to_port(site.port());
  for (int i = 0; i < 200; i++) silent.push_back(connect_to_port(site.port()));
  send_text(honest, request_of("GET", "/metrics"));
  CHECK(status_of(read_answer(honest)) == 200);
}

TEST_CASE("streams are bounded, and end with the server", "[net]") {
  HttpOptions options;
  options.streams_max = 2;
  auto site = std::make_unique<Site>(std::move(options));
  std::vector<UniqueFd> streams;
  for (int i = 0; i < 2; i++) {
    streams.push_back(connect_to_port(site->port()));
    send_text(streams.back(), request_of("GET", "/events"));
    CHECK_THAT(read_answer(streams.back(), 60, "data: 0"), Contains("text/event-stream") && Contains("data: 0"));
  }
  CHECK(status_of(http_get(site->port(), "/events")) == 503);
  CHECK(status_of(http_get(site->port(), "/metrics")) == 200);
  site.reset();
  for (const UniqueFd& stream : streams) CHECK_THAT(read_answer(stream), Contains("data: ") && Contains("\r\n0\r\n"));
}

TEST_CASE("a client of HTTP/1.0 gets events as they are, and not in chunks", "[net]") {
  const Site site;
  const UniqueFd stream = connect_to_port(site.port());
  send_text(stream, "GET /events HTTP/1.0\r\n\r\n");
  const std::string answer = read_answer(stream, 60, "data: 0");
  CHECK(body_of(answer).starts_with("data: 0"));
  CHECK_THAT(answer, !Contains("Transfer-Encoding"));
}

TEST_CASE("a busy port and a foreign address are errors that say what to do", "[net]") {
  const Site site;
  const auto error_of = [](const std::string& host, uint16_t port) {
    const auto second = HttpServer::start({.flag = "--metrics-addr", .where = {host, port}}, {}, Log::silent());
    return second ? Error{} : second.error();
  };
  const Error busy = error_of("127.0.0.1", site.port());
  CHECK(busy.code == Code::kStartup);
  CHECK_THAT(busy.message, Contains("--metrics-addr 127.0.0.1:" + std::to_string(site.port())) &&
                               Contains("in use by another process") && Contains("port 0"));
  CHECK_THAT(error_of("192.0.2.1", 0).message, Contains("not an address of this host"));
}
