// TLS on the control and the data streams, with certificates that the openssl program makes during the test.
#include <cstdlib>
#include <memory>

#include "base/file.h"
#include "rpc/data_client.h"
#include "rpc/data_server.h"
#include "rpc/job.h"
#include "support/catch.h"
#include "support/certificates.h"
#include "support/temp_dir.h"

namespace dtrain::rpc::test {
namespace {

Security with_tls(const std::string& at) {
  Security secure = security();
  secure.tls = read_tls(at + "/node.pem", at + "/node.key", at + "/ca.pem").value();
  return secure;
}

class Ignore final : public kvstore::ClientEvents, public kvstore::ServerEvents {
 public:
  void on_message(uint32_t, const kvstore::Head&, kvstore::Pieces) override {}
  void on_message(const std::shared_ptr<kvstore::Pipe>&, const kvstore::Head&, kvstore::Pieces) override {}
  void on_reconnected(uint32_t) override {}
};

}  // namespace

TEST_CASE("TLS admits only clients with a certificate of the authority", "[rpc]") {
  if (std::system("openssl version > /dev/null 2>&1") != 0) {
    WARN("skipped: no openssl");
    return;
  }
  const dtrain::test::TempDir here;
  const dtrain::test::TempDir elsewhere;
  REQUIRE(dtrain::test::make_certificates(here.path()));
  REQUIRE(dtrain::test::make_certificates(elsewhere.path()));
  const Security secure = with_tls(here.path());

  Job job(settings(1, 0), secure);
  Process good(job.scheduler->port(), Role::kWorker, secure);
  Process plain(job.scheduler->port(), Role::kWorker);
  Process stranger(job.scheduler->port(), Role::kWorker, with_tls(elsewhere.path()));
  for (Process* process : {&plain, &stranger}) {
    process->options.start_timeout = 300ms;
    process->create();
    CHECK(within(process->join()).error().code == Code::kStartup);
  }
  CHECK(within(good.join()).has_value());

  Waits waits;
  const auto server = DataServer::start({{}, secure}, waits, Log::silent()).value();
  Ignore ignore;
  server->serve({7}, ignore, nullptr);
  const auto connect = [&](const Security& as, std::chrono::milliseconds limit) {
    DataClientOptions options;
    options.servers = {"127.0.0.1:" + std::to_string(server->port())};
    options.incarnation = 7;
    options.security = as;
    return DataClient::create(std::move(options), ignore, waits, Log::silent()).value()->connect(limit);
  };
  CHECK(connect(secure, 5s).has_value());
  CHECK(connect(security(), 300ms).error().code == Code::kStartup);
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
