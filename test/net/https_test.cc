// The server of http_server_test.cc with a certificate, and OpenSSL's own client.
#include <array>
#include <csignal>
#include <cstdio>
#include <memory>

#include "base/file.h"
#include "net/http/http_server.h"
#include "net/http_client.h"
#include "support/catch.h"
#include "support/certificates.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::net;
using namespace dtrain::test;
using Catch::Contains;

namespace {

constexpr size_t kBig = 3 << 20;

HttpOptions options_with(const std::string& directory) {
  HttpOptions options{.flag = "--metrics-addr", .where = {.host = "127.0.0.1", .port = 0}};
  options.certificate = {must(read_file(directory + "/node.pem")), must(read_file(directory + "/node.key"))};
  return options;
}

std::unique_ptr<HttpServer> serve(HttpOptions options) {
  std::signal(SIGPIPE, SIG_IGN);
  std::vector<HttpRoute> routes;
  routes.push_back({.path = "/metrics", .answer = []() -> HttpAnswer { return {"text/plain", "seen"}; }});
  routes.push_back({.path = "/big", .answer = []() -> HttpAnswer { return {"text/plain", std::string(kBig, 'x')}; }});
  return must(HttpServer::start(std::move(options), std::move(routes), Log::silent()));
}

// What the server answers to a client that trusts the authority of `directory` only; empty if there is no connection.
std::string https_get(uint16_t port, const std::string& path, const std::string& directory) {
  const std::string command =
      "printf 'GET " + path +
      " HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n' | openssl s_client -quiet -verify_return_error "
      "-verify_ip 127.0.0.1 -CAfile '" +
      directory + "/ca.pem' -connect 127.0.0.1:" + std::to_string(port) + " 2>/dev/null";
  FILE* program = ::popen(command.c_str(), "r");
  std::string answer;
  std::array<char, 65536> buffer{};
  while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), program)) answer.append(buffer.data(), got);
  ::pclose(program);
  return answer;
}

}  // namespace

TEST_CASE("with a certificate answers are encrypted, for clients that know its authority", "[net]") {
  const TempDir here, elsewhere;
  REQUIRE(make_certificates(here.path()));
  REQUIRE(make_certificates(elsewhere.path()));
  const auto server = serve(options_with(here.path()));
  CHECK(body_of(https_get(server->port(), "/metrics", here.path())) == "seen");
  CHECK(body_of(https_get(server->port(), "/big", here.path())).size() == kBig);
  CHECK(https_get(server->port(), "/metrics", elsewhere.path()).empty());
  CHECK(status_of(https_get(server->port(), "/none", here.path())) == 404);
}

TEST_CASE("a client that does not speak TLS is told so, and holds nothing up", "[net]") {
  const TempDir here;
  REQUIRE(make_certificates(here.path()));
  HttpOptions options = options_with(here.path());
  options.patience = std::chrono::milliseconds(200);
  const auto server = serve(std::move(options));
  const std::string plain = http_get(server->port(), "/metrics");
  CHECK(status_of(plain) == 400);
  CHECK_THAT(body_of(plain), Contains("open it as https://"));
  const UniqueFd silent = connect_to_port(server->port()), noise = connect_to_port(server->port()),
                 half = connect_to_port(server->port());
  send_text(noise, std::string(70000, '\x16'));
  send_text(half, std::string("\x16\x03\x01\x02\x00\x01", 6));
  for (const UniqueFd* connection : {&silent, &noise, &half}) CHECK(body_of(read_answer(*connection)).empty());
  CHECK(body_of(https_get(server->port(), "/metrics", here.path())) == "seen");
}

TEST_CASE("a certificate or key that cannot be used is an error that names the flags", "[net]") {
  const TempDir here, elsewhere;
  REQUIRE(make_certificates(here.path()));
  REQUIRE(make_certificates(elsewhere.path()));
  const auto refusal = [](HttpOptions options) {
    const auto started = HttpServer::start(std::move(options), {}, Log::silent());
    return started ? Error{} : started.error();
  };
  HttpOptions options = options_with(here.path());
  options.certificate->chain = "no certificate";
  CHECK(refusal(options).code == Code::kUsage);
  CHECK_THAT(refusal(options).text(),
             Contains("--metrics-addr with --tls-cert and --tls-key") && Contains("the certificate cannot be used"));
  options = options_with(here.path());
  options.certificate->key = must(read_file(elsewhere.path("node.key")));
  CHECK_THAT(refusal(options).text(), Contains("the key cannot be used: key values mismatch"));
}
