// Leaks 4242 bytes in each of two gRPC callbacks, on purpose. LeakSanitizer must report them in spite of the
// suppressions in scripts/dev/lsan.supp. Exits with 0, so that only the report counts; test/rpc/planted_leak reads it.
#include <atomic>
#include <cstdio>
#include <future>
#include <memory>

#include "rpc/data_client.h"
#include "rpc/data_server.h"

namespace {

using namespace dtrain;
using kvstore::Head;
using kvstore::Header;
using kvstore::Kind;
using kvstore::Pieces;

constexpr uint64_t kLeakIncarnation = 1;
constexpr size_t kLeakedBytes = 4242;
std::atomic<int> leaked = 0;

__attribute__((noinline)) void planted_leak() {
  auto* memory = new volatile char[kLeakedBytes];
  memory[0] = 1;
  leaked++;
}

class LeakingServer final : public kvstore::ServerEvents {
 public:
  void on_message(const std::shared_ptr<kvstore::Pipe>& peer, const Head& head, Pieces) override {
    planted_leak();
    Header answer = std::get<Header>(head);
    answer.kind = Kind::kAnswer;
    peer->send(kvstore::make_message(answer, {}, nullptr, true));
  }
};

class LeakingClient final : public kvstore::ClientEvents {
 public:
  void on_message(uint32_t, const Head&, Pieces) override {
    planted_leak();
    answered.set_value();
  }
  void on_reconnected(uint32_t) override {}

  std::promise<void> answered;
};

rpc::Security leak_security() {
  return {.token = "secret", .build_id = "build-1", .tls = {}};
}

bool exchange_one_message() {
  Waits waits;
  LeakingServer server_events;
  LeakingClient client_events;
  auto server = rpc::DataServer::start({{}, leak_security()}, waits, Log::silent()).value();
  rpc::DataClientOptions options;
  options.servers = {"127.0.0.1:" + std::to_string(server->port())};
  options.incarnation = kLeakIncarnation;
  options.security = leak_security();
  auto client = rpc::DataClient::create(std::move(options), client_events, waits, Log::silent()).value();
  server->serve({kLeakIncarnation}, server_events, nullptr);
  if (!client->connect(std::chrono::seconds(60))) return false;
  Header header;
  header.incarnation = kLeakIncarnation;
  client->pipes()[0]->send(kvstore::make_message(header, {}, nullptr, true));
  const bool came = client_events.answered.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready;
  client->close();
  server->close();
  return came;
}

}  // namespace

int main() {
  if (!exchange_one_message() || leaked != 2) return 1;
  std::puts("leaked in 2 callbacks");
  std::fflush(stdout);  // LeakSanitizer ends the process before exit() would flush
  return 0;
}
