// What a worker's connections to its servers report when they are lost.
#include <future>
#include <memory>
#include <string>

#include "exchange.h"
#include "rpc/data_client.h"
#include "support/catch.h"
#include "support/forwarder.h"
#include "support/patience.h"

namespace dtrain::rpc {
namespace {

using namespace std::chrono_literals;
using dtrain::test::Forwarder;

class Nothing final : public kvstore::ServerEvents, public kvstore::ClientEvents {
 public:
  void on_message(const std::shared_ptr<kvstore::Pipe>&, const kvstore::Head&, kvstore::Pieces) override {}
  void on_message(uint32_t, const kvstore::Head&, kvstore::Pieces) override {}
  void on_reconnected(uint32_t) override {}
};

// A worker with two servers, of which it reaches the second through a forwarder.
struct TwoServers {
  explicit TwoServers(std::chrono::milliseconds heartbeat_timeout) {
    for (const auto& server : servers) server->serve({1000}, nothing, nullptr);
    client = DataClient::create({.servers = {address(servers[0]->port()), address(forwarder->port())},
                                 .rank = 0,
                                 .host = "here",
                                 .incarnation = 1000,
                                 .security = test::ExchangeOptions::security(),
                                 .heartbeat_timeout = heartbeat_timeout},
                                nothing, waits, Log::silent())
                 .value();
    client->on_lost_links([this](const std::vector<LostLink>& links) {
      const MutexLock lock(mutex);
      reports.push_back(links);
    });
    REQUIRE(client->connect(10s).has_value());
  }
  static std::string address(uint16_t port) { return "127.0.0.1:" + std::to_string(port); }
  std::vector<LostLink> first_report() {
    dtrain::test::await([&] {
      const MutexLock lock(mutex);
      return !reports.empty();
    });
    const MutexLock lock(mutex);
    return reports.front();
  }
  void await_open() {
    dtrain::test::await([&] {
      const MutexLock lock(mutex);
      return reports.back().empty();
    });
  }

  Waits waits;
  Nothing nothing;
  std::vector<std::unique_ptr<DataServer>> servers = make_servers();
  std::unique_ptr<Forwarder> forwarder = std::make_unique<Forwarder>("127.0.0.1", 0, servers[1]->port());
  Mutex mutex;
  std::vector<std::vector<LostLink>> reports DT_GUARDED_BY(mutex);
  std::unique_ptr<DataClient> client;

 private:
  std::vector<std::unique_ptr<DataServer>> make_servers() {
    std::vector<std::unique_ptr<DataServer>> made(2);
    for (auto& server : made) {
      server = DataServer::start({{}, test::ExchangeOptions::security()}, waits, Log::silent()).value();
    }
    return made;
  }
};

}  // namespace

TEST_CASE("a closed connection to a server is reported at once, and again when it is open", "[rpc]") {
  TwoServers two(10s);
  const auto before = std::chrono::steady_clock::now();
  two.servers[1]->cut(0);
  const std::vector<LostLink> lost = two.first_report();
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].server == 1);
  CHECK(lost[0].since >= before);
  CHECK_THAT(lost[0].why, Catch::Contains("from here to " + TwoServers::address(two.forwarder->port()) + ": "));
  two.await_open();
}

// Nobody tells the worker: its pings get no answer. gRPC sends at most one a second.
TEST_CASE("a connection that swallows what is sent is reported within the heartbeat timeout", "[rpc]") {
  TwoServers two(2s);
  two.forwarder->cut(Forwarder::Cut::kSwallow, "");
  const std::vector<LostLink> lost = two.first_report();
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].server == 1);
  const std::vector<OpenWait> open = two.waits.open();
  REQUIRE(open.size() == 1);
  CHECK_THAT(open[0].name, Catch::Contains("server 1 at " + TwoServers::address(two.forwarder->port())) &&
                               Catch::Contains("to be reached again"));
}

}  // namespace dtrain::rpc
