// The server that --metrics-addr and --monitor-addr start: what it answers, whom it refuses, and that no client can hold
// it up.
#include "observe/http/http_server.h"

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "observe/http/access.h"
#include "observe/http_client.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::observe;
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
    options.flag = "--monitor-addr";
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

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + double(time.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string request_of(const std::string& method, const std::string& path, const std::string& rest = "") {
  return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + rest + "\r\n";
}

}  // namespace

TEST_CASE("only GET and HEAD of known paths are served, and no file", "[observe]") {
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
    CHECK((status == 405 || status == 400));
  }
  const UniqueFd head = connect_to_port(site.port());
  send_text(head, request_of("HEAD", "/"));
  const std::string answer = read_answer(head);
  CHECK(status_of(answer) == 200);
  CHECK(body_of(answer).empty());
}

// A page of another web site can send any GET to this machine, but no header of this name.
TEST_CASE("an action is done only for GET with its header", "[observe]") {
  const Site site;
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

TEST_CASE("what is no request ends the connection and nothing else", "[observe]") {
  HttpOptions options;
  options.patience = std::chrono::milliseconds(100);
  const Site site(std::move(options));
  const std::vector<std::string> texts = {"",
                                          "\r\n\r\n",
                                          "GET\r\n\r\n",
                                          "GET / HTTP/9.9\r\n\r\n",
                                          std::string(3000, '\0'),
                                          "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n\r\n",
                                          "GET / HTTP/1.1\r\n" + std::string(100000, 'h'),
                                          request_of("GET", "/metrics", "Range: bytes=0-,0-,0-,0-\r\n"),
                                          "GET / HTTP/1.1\r\nHost: local",
                                          "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"};
  for (const std::string& text : texts) {
    const UniqueFd connection = connect_to_port(site.port());
    send_text(connection, text);
    const std::string answer = read_answer(connection, 2);
    CHECK_THAT(answer, !Contains("multipart"));
  }
  CHECK(status_of(http_get(site.port(), "/metrics")) == 200);
}

TEST_CASE("a token is asked for, and a browser gets a cookie for it", "[observe]") {
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

TEST_CASE("a server on loopback answers no name of another site", "[observe]") {
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

TEST_CASE("a page may load nothing from elsewhere, and its scripts have a new number each time", "[observe]") {
  const Site site;
  const std::string first = http_get(site.port(), "/"), second = http_get(site.port(), "/");
  CHECK_THAT(first, Contains("Content-Security-Policy: default-src 'none'; script-src 'nonce-"));
  CHECK_THAT(first, !Contains("@NONCE@"));
  const std::string nonce = body_of(first).substr(15, 32);
  CHECK_THAT(first, Contains("'nonce-" + nonce + "'") && Contains("style nonce=\"" + nonce));
  CHECK(body_of(first) != body_of(second));
}

TEST_CASE("an answer is made five times a second at most, however many ask", "[observe]") {
  Site site;
  const double before = cpu_seconds();
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; i++) REQUIRE(status_of(http_get(site.port(), "/metrics")) == 200);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  INFO("1000 requests took " << seconds << " s, and " << cpu_seconds() - before
                             << " s of processor time, client included");
  CHECK(site.made <= 2 + seconds / 0.2);
  CHECK(cpu_seconds() - before < 10);
}

TEST_CASE("clients that stop reading or sending hold nothing up", "[observe]") {
  HttpOptions options;
  options.patience = std::chrono::milliseconds(600);
  options.streams_max = 2;
  Site site(std::move(options));
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 6; i++) {  // fewer than the threads; the seventh and eighth answer others
    idle.push_back(connect_to_port(site.port(), 4096));
    send_text(idle.back(), i % 2 == 0 ? request_of("GET", "/big") : "GET /metr");
  }
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; i++) CHECK(status_of(http_get(site.port(), "/metrics")) == 200);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::milliseconds(550));
  // With all threads occupied, others wait for the patience and no longer.
  for (int i = 0; i < 12; i++) {
    idle.push_back(connect_to_port(site.port(), 4096));
    send_text(idle.back(), request_of("GET", "/big"));
  }
  CHECK(status_of(http_get(site.port(), "/metrics")) == 200);
}

// The patience is longer than a client of this test waits for an answer. There are more silent clients than threads, and
// in the end more than the server keeps.
TEST_CASE("clients that have not sent a whole request keep no other waiting", "[observe]") {
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
  CHECK(read_answer(stalled.front(), 10).empty());  // the oldest was closed, without an answer
}

TEST_CASE("streams are bounded, and end with the server", "[observe]") {
  HttpOptions options;
  options.streams_max = 2;
  auto site = std::make_unique<Site>(std::move(options));
  std::vector<UniqueFd> streams;
  for (int i = 0; i < 2; i++) {
    streams.push_back(connect_to_port(site->port()));
    send_text(streams.back(), request_of("GET", "/events"));
    CHECK_THAT(read_answer(streams.back(), 10, "data: 0"), Contains("text/event-stream") && Contains("data: 0"));
  }
  CHECK(status_of(http_get(site->port(), "/events")) == 503);
  CHECK(status_of(http_get(site->port(), "/metrics")) == 200);
  site.reset();
  for (const UniqueFd& stream : streams) CHECK_THAT(read_answer(stream), Contains("data: ") && Contains("\r\n0\r\n"));
}

TEST_CASE("a busy port and a foreign address are errors that say what to do", "[observe]") {
  const Site site;
  const auto error_of = [](const std::string& host, uint16_t port) {
    const auto second = HttpServer::start({.flag = "--metrics-addr", .where = {host, port}}, {}, Log::silent());
    return second ? Error{} : second.error();
  };
  const Error busy = error_of("127.0.0.1", site.port());
  CHECK(busy.code == Code::kStartup);
  CHECK_THAT(busy.message, Contains("--metrics-addr 127.0.0.1:" + std::to_string(site.port())) &&
                               Contains("in use by another process") && Contains("port 0"));
  CHECK_THAT(error_of("192.0.2.1", 0).message, Contains("not an address of this machine"));
}
