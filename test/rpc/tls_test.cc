// TLS on the control and the data streams, with certificates that the openssl program makes during the test.
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "rpc/data_client.h"
#include "rpc/data_server.h"
#include "rpc/job.h"
#include "rpc/library_log.h"
#include "support/catch.h"
#include "support/certificates.h"
#include "support/temp_dir.h"

namespace dtrain::rpc::test {
namespace {

using dtrain::test::make_certificates;

bool has_openssl() {
  if (std::system("openssl version > /dev/null 2>&1") == 0) return true;
  WARN("skipped: no openssl");
  return false;
}

Security with_tls(const std::string& at, const std::string& authority_at) {
  Security secure = security();
  secure.tls = read_tls(at + "/node.pem", at + "/node.key", authority_at + "/ca.pem").value();
  return secure;
}

class Ignore final : public kvstore::ClientEvents, public kvstore::ServerEvents {
 public:
  void on_message(uint32_t, const kvstore::Head&, kvstore::Pieces) override {}
  void on_message(const std::shared_ptr<kvstore::Pipe>&, const kvstore::Head&, kvstore::Pieces) override {}
  void on_reconnected(uint32_t) override {}
};

// What a process that joins a job gets; an error if the two cannot come together.
Result<> join(const Security& scheduler, const Security& process) {
  Job job(settings(1, 0), scheduler);
  Process worker(job.scheduler->port(), Role::kWorker, process);
  const Result<JoinReply> reply = within(worker.join());
  if (!reply) return tl::unexpected(reply.error());
  return {};
}

// The same for a worker that connects to a server.
Result<> connect(const Security& of_server, const Security& of_worker) {
  Waits waits;
  const auto server = DataServer::start({{}, of_server}, waits, Log::silent()).value();
  Ignore ignore;
  server->serve({7}, ignore, nullptr);
  DataClientOptions options;
  options.servers = {"127.0.0.1:" + std::to_string(server->port())};
  options.incarnation = 7;
  options.security = of_worker;
  const auto client = DataClient::create(std::move(options), ignore, waits, Log::silent()).value();
  return client->connect(60s);
}

// Directories with certificates: an authority's good one, its others, and that of another authority.
class Certificates {
 public:
  Certificates() {
    REQUIRE(make_certificates(good_.path()));
    REQUIRE(make_certificates(stranger_.path()));
    for (const auto* dir : {&expired_, &elsewhere_}) {
      for (const char* file : {"/ca.pem", "/ca.key"}) {
        std::filesystem::copy_file(good_.path() + file, dir->path() + file);
      }
    }
    REQUIRE(make_certificates(expired_.path(), {.has_expired = true}));
    REQUIRE(make_certificates(elsewhere_.path(), {.names = "DNS:elsewhere,IP:127.0.0.9"}));
  }
  // All trust the good authority.
  [[nodiscard]] Security good() const { return with_tls(good_.path(), good_.path()); }
  [[nodiscard]] Security stranger() const { return with_tls(stranger_.path(), good_.path()); }
  [[nodiscard]] Security expired() const { return with_tls(expired_.path(), good_.path()); }
  [[nodiscard]] Security elsewhere() const { return with_tls(elsewhere_.path(), good_.path()); }

 private:
  dtrain::test::TempDir good_, stranger_, expired_, elsewhere_;
};

}  // namespace

TEST_CASE("processes with certificates of the same authority come together", "[rpc]") {
  if (!has_openssl()) return;
  const Certificates certificates;
  CHECK(join(certificates.good(), certificates.good()).has_value());
  CHECK(connect(certificates.good(), certificates.good()).has_value());
  CHECK(connect(certificates.good(), certificates.elsewhere()).has_value());  // nobody connects to a worker by its name
}

// The limit of the start is a minute: whoever waited for it would fail the test.
TEST_CASE("a certificate that is refused ends the start at once, whichever side refuses it", "[rpc]") {
  if (!has_openssl()) return;
  const Certificates all;
  struct Case {
    Security called, caller;
    std::string cause;
  };
  const std::string shown = "the certificate of 127.0.0.1:", ours = "does not accept the certificate of this process";
  const std::vector<Case> cases = {
      {all.elsewhere(), all.good(), "IP address mismatch (its names must include the address of the connection"},
      {all.expired(), all.good(), "certificate has expired"},
      {all.stranger(), all.good(), "unable to get local issuer certificate"},
      {all.good(), all.expired(), ours},
      {all.good(), all.stranger(), ours},
      {security(), all.good(), "does not use TLS"},
      {all.good(), security(),
       "uses TLS, but this process does not: also give this process --tls-cert, --tls-key and --tls-ca"},
  };
  std::vector<std::pair<std::string, std::future<Result<>>>> outcomes;  // at the same time, because each takes a second
  for (const Case& one : cases) {
    for (const auto way : {join, connect}) {
      outcomes.emplace_back(one.cause, std::async(std::launch::async, way, one.called, one.caller));
    }
  }
  for (auto& [cause, outcome] : outcomes) {
    INFO(cause);
    const Result<> result = outcome.get();
    REQUIRE_FALSE(result);
    CHECK(result.error().code == Code::kDenied);
    CHECK_THAT(result.error().text(), Catch::Contains(cause));
  }
  CHECK_THAT(connect(all.expired(), all.good()).error().text(),
             Catch::Contains(shown) && Catch::Contains("connecting to server 0"));
}

TEST_CASE("lines of gRPC go to the log's files", "[rpc]") {
  if (!has_openssl()) return;
  const dtrain::test::TempDir dir;
  const Certificates certificates;
  Log log = Log::silent();
  REQUIRE(log.add_file(dir.path("log")));
  const LibraryLines lines(log);
  CHECK_FALSE(connect(certificates.good(), certificates.stranger()));
  CHECK_THAT(*read_file(dir.path("log")), Catch::Contains(" gRPC: ") && Catch::Contains("andshake"));
}

TEST_CASE("an invalid certificate is a startup error", "[rpc]") {
  DataServerOptions options;
  options.security.tls = Tls{"no certificate", "no key", "no authority"};
  Waits waits;
  const auto server = DataServer::start(std::move(options), waits, Log::silent());
  REQUIRE_FALSE(server.has_value());
  CHECK_THAT(server.error().message, Catch::Contains("TLS"));
}

}  // namespace dtrain::rpc::test
