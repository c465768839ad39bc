// Connections between workers and servers that break in the middle of messages, again and again.
#include <grpcpp/generic/async_generic_service.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "exchange.h"
#include "relay.h"
#include "rpc/channel.h"
#include "rpc/server_lane.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::rpc {
namespace {

using namespace std::chrono_literals;
using kvstore::Head;
using kvstore::Header;
using kvstore::Pieces;

constexpr uint64_t kRelayedSteps = 30;

struct TrainedOverRelays {
  std::vector<float> weights;
  kvstore::ShardCounts counts;  // of both servers
};

// Trains with two workers and two servers. `route`: see ExchangeOptions.
TrainedOverRelays train_over_relays(const std::function<uint16_t(uint16_t)>& route) {
  test::ExchangeOptions options;
  options.shapes = {{60'000}, {30'000}, {9}};
  options.bigarray_bound = 20'000;  // the first two are cut
  options.rule.schedule.base = 0.05;
  options.rule.samples_per_epoch = 100;
  options.route = route;
  options.retry_first = 1ms;
  test::Exchange exchange(options);
  exchange.on_each([&](uint32_t rank, test::ExchangeWorker& worker) -> Result<> {
    DT_TRY_VOID(worker.store->initialize(worker.views, {}));
    for (uint64_t step = 0; step < kRelayedSteps; step++) {
      RandomStream random(11, Use::kTest, rank, step);
      for (size_t k = 0; k < options.shapes.size(); k++) {
        for (float& g : worker.arrays[0]->gradient(k)) g = static_cast<float>(random.uniform(-1, 1));
      }
      DT_TRY_VOID(worker.step(step, 3 + rank));
    }
    return {};
  });
  TrainedOverRelays trained;
  for (size_t k = 0; k < options.shapes.size(); k++) {
    const std::span<const float> weights = exchange.workers[0]->arrays[0]->weight(k);
    CHECK(std::ranges::equal(weights, exchange.workers[1]->arrays[0]->weight(k)));
    trained.weights.insert(trained.weights.end(), weights.begin(), weights.end());
  }
  for (const auto& server : exchange.servers) {
    const kvstore::ShardCounts counts = server->shard->counts();
    trained.counts.pushes += counts.pushes;
    trained.counts.updates += counts.updates;
    trained.counts.duplicates += counts.duplicates;
  }
  return trained;
}

// Count what they receive, and what they receive after they were told that nothing more may come.
class Answering final : public kvstore::ServerEvents {
 public:
  void on_message(const std::shared_ptr<kvstore::Pipe>& peer, const Head& head, Pieces) override {
    if (is_over) late++;
    Header answer = std::get<Header>(head);
    answer.kind = kvstore::Kind::kAnswer;
    answer.element_count = static_cast<uint32_t>(values_->size());
    peer->send(kvstore::make_message(answer, *values_, values_, true));
  }
  std::atomic<bool> is_over = false;
  std::atomic<int> late = 0;

 private:
  std::shared_ptr<const std::vector<float>> values_ = std::make_shared<const std::vector<float>>(10'000);
};

class Hearing final : public kvstore::ClientEvents {
 public:
  void on_message(uint32_t, const Head&, Pieces) override {
    if (is_over) late++;
    heard++;
  }
  void on_reconnected(uint32_t) override {
    if (is_over) late++;
  }
  std::atomic<bool> is_over = false;
  std::atomic<int> late = 0, heard = 0;
};

class Recording final : public kvstore::ServerEvents {
 public:
  void on_message(const std::shared_ptr<kvstore::Pipe>&, const Head& head, Pieces) override {
    const uint64_t step = std::get<Header>(head).step;
    steps.push_back(step);
    if (on_step) on_step(step);
  }
  std::vector<uint64_t> steps;
  std::function<void(uint64_t)> on_step;
};

Header request_of(uint64_t step) {
  Header header;
  header.incarnation = 1000;
  header.key = static_cast<uint32_t>(step);
  header.step = step;
  return header;
}

// A server that treats each request as the test says, and a worker that asks again each time it is connected again. Its
// streams are those of one lane, so that an answer comes before the end of the stream.
class Asking final : public kvstore::ClientEvents {
 public:
  using Treat = std::function<void(DataServer& server, kvstore::Pipe& peer, const Head& head)>;

  Asking(std::chrono::milliseconds retry_first, std::chrono::milliseconds retry_last, const Log& log, Treat treat)
      : treating_(*this, std::move(treat)) {
    server_->serve({1000}, treating_, nullptr);
    DataClientOptions options;
    options.servers = {address()};
    options.incarnation = 1000;
    options.security = test::ExchangeOptions::security();
    options.lanes = 1;
    options.retry_first = retry_first;
    options.retry_last = retry_last;
    client_ = DataClient::create(std::move(options), *this, waits_, log).value();
    pipe_ = client_->pipes()[0];
  }
  // Returns true if the connection broke and was opened again `rounds` times.
  bool reconnects(int rounds) {
    rounds_left_ = rounds;
    REQUIRE(client_->connect(10s).has_value());
    pipe_->send(kvstore::make_message(request_of(0), {}, nullptr, true));
    return done_.get_future().wait_for(20s) == std::future_status::ready;
  }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(server_->port()); }

  void on_message(uint32_t, const Head&, Pieces) override {}
  void on_reconnected(uint32_t) override {
    if (--rounds_left_ == 0) return done_.set_value();
    if (rounds_left_ > 0) pipe_->send(kvstore::make_message(request_of(0), {}, nullptr, true));
  }

 private:
  class Treating final : public kvstore::ServerEvents {
   public:
    Treating(Asking& owner, Treat treat) : owner_(owner), treat_(std::move(treat)) {}
    void on_message(const std::shared_ptr<kvstore::Pipe>& peer, const Head& head, Pieces) override {
      treat_(*owner_.server_, *peer, head);
    }

   private:
    Asking& owner_;
    Treat treat_;
  };

  Waits waits_;
  Treating treating_;
  std::atomic<int> rounds_left_ = 0;
  std::promise<void> done_;
  std::unique_ptr<DataServer> server_ =
      DataServer::start({{}, test::ExchangeOptions::security()}, waits_, Log::silent()).value();
  std::shared_ptr<kvstore::Pipe> pipe_;
  std::unique_ptr<DataClient> client_;
};

// Ends each call with a status.
class Ending final : public grpc::CallbackGenericService {
 public:
  explicit Ending(grpc::StatusCode code) : status_(code, "ended by the test") {
    listener_ = listen({}, test::ExchangeOptions::security(), Traffic::kData, Log::silent(),
                       [this](grpc::ServerBuilder& builder) { builder.RegisterCallbackGenericService(this); })
                    .value();
  }
  ~Ending() override { listener_.shutdown(std::chrono::system_clock::now()); }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  // How a worker's connect() fails.
  Error error_of_connect() {
    DataClientOptions options;
    options.servers = {"127.0.0.1:" + std::to_string(listener_.port)};
    options.security = test::ExchangeOptions::security();
    Waits waits;
    Hearing hearing;
    const auto client = DataClient::create(std::move(options), hearing, waits, Log::silent()).value();
    return client->connect(300ms).error();
  }

 private:
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Call(const grpc::Status& status) { Finish(status); }
    void OnDone() override { delete this; }
  };
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Call(status_);
  }

  const grpc::Status status_;
  Listener listener_;
};

}  // namespace

// gRPC ends a stream with other statuses, too, if its connection breaks at an unlucky moment.
TEST_CASE("a stream to a server is opened again unless the server refuses it", "[rpc]") {
  for (const auto code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::INTERNAL, grpc::StatusCode::UNKNOWN,
                          grpc::StatusCode::DATA_LOSS}) {
    INFO(code);
    const Error error = Ending(code).error_of_connect();
    CHECK(error.code == Code::kStartup);  // it tried for as long as it might
    CHECK_THAT(error.text(), Catch::Contains("(ended by the test)"));
  }
  CHECK(Ending(grpc::StatusCode::PERMISSION_DENIED).error_of_connect().code == Code::kDenied);
  CHECK(Ending(grpc::StatusCode::RESOURCE_EXHAUSTED).error_of_connect().code == Code::kInternal);
}

TEST_CASE("weights have the same bits although connections break in the middle of messages", "[rpc]") {
  const TrainedOverRelays calm = train_over_relays(nullptr);
  CHECK(calm.counts.duplicates == 0);
  std::vector<std::unique_ptr<test::Relay>> relays;
  const TrainedOverRelays disturbed = train_over_relays([&](uint16_t server) {
    const test::Relay::Cuts cuts{.bytes_min = 100'000, .bytes_max = 900'000, .seed = relays.size()};
    relays.push_back(std::make_unique<test::Relay>(server, cuts));
    return relays.back()->port();
  });
  int cut_count = 0;
  for (const auto& relay : relays) cut_count += relay->cut_count();
  INFO(cut_count << " cuts, " << disturbed.counts.duplicates << " repeated requests");
  CHECK(cut_count > 40);
  CHECK(disturbed.counts.duplicates > 0);
  CHECK(disturbed.weights == calm.weights);
  CHECK(disturbed.counts.pushes == calm.counts.pushes);
  CHECK(disturbed.counts.updates == calm.counts.updates);
}

TEST_CASE("nothing is delivered after close, whatever is on its way", "[rpc]") {
  const std::vector<float> values(10'000);
  for (uint64_t round = 0; round < 10; round++) {
    Answering answering;
    Hearing hearing;
    Waits waits;
    auto server = DataServer::start({{}, test::ExchangeOptions::security()}, waits, Log::silent()).value();
    server->serve({1000}, answering, nullptr);
    test::Relay relay(server->port(), {.bytes_min = 1'000'000, .bytes_max = 8'000'000, .seed = round});
    DataClientOptions options;
    options.servers = {"127.0.0.1:" + std::to_string(relay.port())};
    options.incarnation = 1000;
    options.security = test::ExchangeOptions::security();
    options.retry_first = 1ms;
    auto client = DataClient::create(std::move(options), hearing, waits, Log::silent()).value();
    REQUIRE(client->connect(10s).has_value());
    // What a cut has lost is not sent again, so more is sent until something comes back.
    for (uint64_t step = 0; step < 200 || hearing.heard == 0; step++) {
      client->pipes()[0]->send(kvstore::make_message(request_of(step), values, nullptr, true));
    }
    for (const bool is_client : {round % 2 == 0, round % 2 != 0}) {
      is_client ? client->close() : server->close();
      (is_client ? hearing.is_over : answering.is_over) = true;
    }
    client.reset();
    server.reset();
    CHECK(hearing.late == 0);
    CHECK(answering.late == 0);
  }
}

TEST_CASE("messages of a stream that was given up are dropped, even those that wait for their turn", "[rpc]") {
  Recording recording;
  ServerLane lane(recording);
  const uint64_t first = lane.open();
  CHECK(lane.receive(first, nullptr, request_of(1), {}));
  uint64_t second = 0;
  bool was_received = true;
  std::thread waiting;
  recording.on_step = [&](uint64_t step) {
    if (step != 2) return;
    waiting = std::thread([&] { was_received = lane.receive(first, nullptr, request_of(3), {}); });
    second = lane.open();
  };
  CHECK(lane.receive(first, nullptr, request_of(2), {}));
  waiting.join();
  CHECK_FALSE(was_received);
  CHECK_FALSE(lane.receive(first, nullptr, request_of(4), {}));
  CHECK(lane.receive(second, nullptr, request_of(5), {}));
  CHECK(recording.steps == std::vector<uint64_t>{1, 2, 5});
}

// The delays are 10, 20, 40, 40, 40 and 40 ms at least, and the log says once what is wrong.
TEST_CASE("a server that breaks every stream is called more and more rarely, and the log says why", "[rpc]") {
  Asking::Treat treat;
  std::string why;
  SECTION("by sending garbage") {
    treat = [](DataServer&, kvstore::Pipe& peer, const Head& head) {
      Header garbage = std::get<Header>(head);
      garbage.magic = 0;
      peer.send(kvstore::make_message(garbage, {}, nullptr, true));
    };
    why = "it sent bytes that are not a message";
  }
  SECTION("by ending it") {
    treat = [](DataServer& server, kvstore::Pipe&, const Head&) { server.cut(0); };
    why = "cut";
  }
  const dtrain::test::TempDir dir;
  Log log = Log::silent();
  REQUIRE(log.add_file(dir.path("log")));
  const auto started = std::chrono::steady_clock::now();
  std::string expected;
  {
    Asking asking(10ms, 40ms, log, treat);
    expected =
        "lost the connection to server 0 at " + asking.address() + ": " + why + "; the next attempt is in 0.01 s\n";
    REQUIRE(asking.reconnects(6));
  }
  CHECK(std::chrono::steady_clock::now() - started >= 190ms);
  const std::string text = *read_file(dir.path("log"));
  CHECK_THAT(text, Catch::Contains(expected));
  CHECK(text.find("lost the connection") == text.rfind("lost the connection"));
}

// Otherwise the last delay would be six days.
TEST_CASE("once a server has answered, the next break is mended after the first delay again", "[rpc]") {
  Asking asking(1ms, std::chrono::hours(1000), Log::silent(),
                [](DataServer& server, kvstore::Pipe& peer, const Head& head) {
                  Header answer = std::get<Header>(head);
                  answer.kind = kvstore::Kind::kAnswer;
                  peer.send(kvstore::make_message(answer, {}, nullptr, true));
                  server.cut(0);
                });
  CHECK(asking.reconnects(30));
}

}  // namespace dtrain::rpc
