// Pipes between workers and servers: bytes both ways, order, broken connections, and callers from outside the job.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <new>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/random.h"
#include "rpc/data_client.h"
#include "rpc/data_message.h"
#include "rpc/data_server.h"
#include "support/catch.h"
#include "support/patience.h"
#include "support/temp_dir.h"

namespace dtrain::rpc {
namespace {

using namespace std::chrono_literals;
using kvstore::Head;
using kvstore::Header;
using kvstore::Kind;
using kvstore::Message;
using kvstore::Pieces;

constexpr uint64_t kIncarnation = 0x1234567890abcdef;

Security security() {
  return {.token = "secret", .build_id = "build-1", .tls = {}};
}

std::vector<float> joined(Pieces pieces) {
  std::vector<float> floats(kvstore::byte_count(pieces) / sizeof(float));
  kvstore::copy_floats(pieces, floats);
  return floats;
}

// More than the largest slice and its head.
std::span<const float> too_many_floats() {
  static const std::vector<float> floats(kvstore::kSliceElementsMax + kHeadBytesMax);
  return floats;
}

// Sends the payload of every message back, from its own memory, as an answer of the same sort.
class Echo final : public kvstore::ServerEvents {
 public:
  void on_message(const std::shared_ptr<kvstore::Pipe>& peer, const Head& head, Pieces payload) override {
    if (peer->needs_checksums()) asked_for_checksums = true;
    if (throws) throw std::runtime_error("this server is broken");
    if (lacks_memory) throw std::bad_alloc();
    if (answers_too_much) return peer->send(kvstore::make_message(answer_to(head), too_many_floats(), nullptr, false));
    count++;
    auto copy = std::make_shared<const std::vector<float>>(joined(payload));
    if (const auto* control = std::get_if<kvstore::ControlRequest>(&head)) {
      const kvstore::ControlAnswer answer{.id = control->id, .request = control->request};
      return peer->send(kvstore::make_message(answer, *copy, copy, true));
    }
    peer->send(kvstore::make_message(answer_to(head), *copy, copy, true));
  }
  std::atomic<bool> throws = false;
  std::atomic<bool> lacks_memory = false;
  std::atomic<bool> asked_for_checksums = false;
  std::atomic<bool> answers_too_much = false;
  std::atomic<size_t> count = 0;

 private:
  static Header answer_to(const Head& head) {
    Header answer = std::get<Header>(head);
    answer.kind = Kind::kAnswer;
    return answer;
  }
};

class Collector final : public kvstore::ClientEvents {
 public:
  void on_message(uint32_t, const Head& head, Pieces payload) override {
    gate.wait(false);
    if (lacks_memory) throw std::bad_alloc();
    const std::lock_guard lock(mutex_);
    const auto* control = std::get_if<kvstore::ControlAnswer>(&head);
    const uint32_t crc = control != nullptr ? control->payload_crc : std::get<Header>(head).payload_crc;
    intact = intact && kvstore::payload_intact(crc, payload);
    steps[slice_of(head).key].push_back(control != nullptr ? control->request : std::get<Header>(head).step);
    last = joined(payload);
    count++;
    changed_.notify_all();
  }
  void on_reconnected(uint32_t) override {
    const std::lock_guard lock(mutex_);
    reconnected++;
    changed_.notify_all();
  }
  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, dtrain::test::kPatience, condition);
  }

  std::map<uint32_t, std::vector<uint64_t>> steps;  // by key, in order of arrival
  std::vector<float> last;
  size_t count = 0;
  int reconnected = 0;
  bool intact = true;
  std::atomic<bool> lacks_memory = false;
  std::atomic<bool> gate = true;  // false: an answer stays where it is, and the next one is not read

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

struct Pair {
  explicit Pair(Security client_security = security(), uint64_t incarnation = kIncarnation,
                DataServerOptions server_options = {{}, security()}, const Log& log = Log::silent())
      : server(DataServer::start(std::move(server_options), waits, log).value()) {
    DataClientOptions options;
    options.servers = {"127.0.0.1:" + std::to_string(server->port())};
    options.incarnation = incarnation;
    options.security = std::move(client_security);
    client = DataClient::create(std::move(options), collector, waits, Log::silent()).value();
  }
  void connect() {
    server->serve({kIncarnation}, echo, [this](const Error& error) { server_failed.set_value(error); });
    REQUIRE(client->connect(5s).has_value());
    pipe = client->pipes()[0];
  }
  static Message message(std::span<const float> values, uint32_t key, uint64_t step) {
    Header header;
    header.incarnation = kIncarnation;
    header.key = key;
    header.step = step;
    return kvstore::make_message(header, values, nullptr, true);
  }
  static Message control(std::span<const float> values, uint32_t key, uint64_t request) {
    const kvstore::ControlRequest head{
        .id = {key, 0}, .rank = 0, .incarnation = kIncarnation, .request = request, .what = kvstore::AssignValues{}};
    return kvstore::make_message(head, values, nullptr, true);
  }

  Waits waits;
  Echo echo;
  Collector collector;
  std::promise<Error> server_failed;
  std::unique_ptr<DataServer> server;
  std::unique_ptr<DataClient> client;
  std::shared_ptr<kvstore::Pipe> pipe;
};

std::vector<float> random_floats(size_t count) {
  RandomStream random(1, Use::kTest);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

}  // namespace

TEST_CASE("payloads of every size are echoed unchanged", "[rpc]") {
  Pair pair;
  pair.connect();
  const std::vector<float> values = random_floats(kvstore::kSliceElementsMax);
  size_t sent = 0;
  for (const size_t count : {size_t{0}, size_t{1}, size_t{15}, size_t{1000}, size_t{1} << 17, values.size()}) {
    for (const bool control : {false, true}) {
      INFO(count << " floats, control " << control);
      const std::span<const float> payload(values.data(), count);
      pair.pipe->send(control ? Pair::control(payload, 0, sent) : Pair::message(payload, 0, sent));
      sent++;
      REQUIRE(pair.collector.wait([&] { return pair.collector.count == sent; }));
      REQUIRE(pair.collector.intact);
      REQUIRE(pair.collector.last.size() == count);
      REQUIRE(std::equal(pair.collector.last.begin(), pair.collector.last.end(), values.begin()));
      REQUIRE(pair.collector.steps[0].back() == sent - 1);
    }
  }
}

TEST_CASE("between processes of one host, neither end asks for checksums", "[rpc]") {
  Pair pair;
  pair.connect();
  CHECK_FALSE(pair.pipe->needs_checksums());
  pair.pipe->send(Pair::message({}, 0, 0));
  REQUIRE(pair.collector.wait([&] { return pair.collector.count == 1; }));
  CHECK_FALSE(pair.echo.asked_for_checksums);
}

TEST_CASE("queued messages of several threads keep their order", "[rpc]") {
  Pair pair;
  pair.connect();
  const std::vector<float> values = random_floats(20'000);
  std::vector<std::thread> threads;
  for (uint32_t key = 0; key < 3; key++) {
    threads.emplace_back([&pair, &values, key] {
      for (uint64_t step = 0; step < 200; step++) {
        pair.pipe->send(step % 10 == 0 ? Pair::control(values, key, step) : Pair::message(values, key, step));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(pair.collector.wait([&] { return pair.collector.count == 600; }));
  CHECK(pair.collector.intact);
  for (const auto& [key, steps] : pair.collector.steps) CHECK(std::ranges::is_sorted(steps));
}

TEST_CASE("a worker that connects early is admitted once the server knows its workers", "[rpc]") {
  Pair pair;
  auto connected = std::async(std::launch::async, [&] { return pair.client->connect(5s); });
  while (pair.waits.open().empty() || !pair.waits.open()[0].name.ends_with("does not know its workers yet)")) {
    std::this_thread::yield();
  }
  pair.server->serve({kIncarnation}, pair.echo, nullptr);
  CHECK(connected.get().has_value());
}

TEST_CASE("connecting to the servers ends when the job fails, with the error of the job", "[rpc]") {
  Pair pair;  // the server does not learn its workers
  auto connected = std::async(std::launch::async, [&] { return pair.client->connect(1h); });
  dtrain::test::await([&] { return !pair.waits.open().empty(); });
  pair.client->cancel({Code::kNotFound, "worker 0 failed: no such file", {}});
  const Result<> ended = connected.get();
  REQUIRE_FALSE(ended.has_value());
  CHECK(ended.error().code == Code::kNotFound);
  CHECK(ended.error().message == "worker 0 failed: no such file");
}

TEST_CASE("a broken stream is reopened, the worker is told, and messages arrive again", "[rpc]") {
  Pair pair;
  pair.connect();
  const std::vector<float> values = random_floats(1000);
  pair.pipe->send(Pair::message(values, 0, 0));
  REQUIRE(pair.collector.wait([&] { return pair.collector.count == 1; }));
  for (int round = 1; round <= 3; round++) {
    pair.server->cut(0);
    REQUIRE(pair.collector.wait([&] { return pair.collector.reconnected == round; }));
    pair.pipe->send(Pair::message(values, 0, static_cast<uint64_t>(round)));
    REQUIRE(pair.collector.wait([&] { return pair.collector.steps[0].back() == static_cast<uint64_t>(round); }));
  }
}

TEST_CASE("a wait for messages that gRPC still holds says how many there are and to whom", "[rpc]") {
  Waits waits;
  Outstanding outstanding;
  outstanding.add();
  CHECK_FALSE(outstanding.wait_none(waits, "nobody", 0ms));
  auto none = std::async(std::launch::async, [&] { return outstanding.wait_none(waits, "server 1 at node2:9", 8s); });
  dtrain::test::await([&] { return !waits.open().empty(); });
  CHECK(waits.open()[0].name == "gRPC to drop 1 messages to server 1 at node2:9");
  outstanding.remove();
  CHECK(none.get());
  CHECK(waits.open().empty());
}

TEST_CASE("a client reconnects to a restarted server", "[rpc]") {
  Pair pair;
  pair.connect();
  const uint16_t port = pair.server->port();
  pair.server.reset();
  DataServerOptions options{{"127.0.0.1", port, 0}, security()};
  pair.server = DataServer::start(std::move(options), pair.waits, Log::silent()).value();
  pair.server->serve({kIncarnation}, pair.echo, nullptr);
  REQUIRE(pair.collector.wait([&] { return pair.collector.reconnected == 1; }));
}

// A server in the place of a lost one, whose address the workers learn before it knows them.
TEST_CASE("a server that awaits a worker does not refuse it permanently", "[rpc]") {
  Pair pair;
  pair.server->serve({DataServer::kAwaited}, pair.echo, nullptr);
  const auto early = pair.client->connect(300ms);
  REQUIRE_FALSE(early.has_value());
  CHECK(early.error().code == Code::kStartup);  // no permanent refusal
  Pair later;
  later.server->serve({DataServer::kAwaited}, later.echo, nullptr);
  later.server->admit_worker(0, kIncarnation);
  CHECK(later.client->connect(5s).has_value());
}

TEST_CASE("a worker with a wrong token or incarnation is refused permanently", "[rpc]") {
  Security wrong = security();
  uint64_t incarnation = kIncarnation;
  Code code = Code::kDenied;
  SECTION("token") {
    wrong.token = "guess";
  }
  SECTION("incarnation") {
    incarnation = 1;
    code = Code::kPeerLost;  // perhaps it had the rank, and was lost
  }
  Pair pair(wrong, incarnation);
  pair.server->serve({kIncarnation}, pair.echo, nullptr);
  const auto connected = pair.client->connect(5s);
  REQUIRE_FALSE(connected.has_value());
  CHECK(connected.error().code == code);
  CHECK_THAT(connected.error().text(), Catch::Contains("server 0 at 127.0.0.1:"));
}

TEST_CASE("an absent server is named after the time limit", "[rpc]") {
  DataClientOptions options;
  options.servers = {"127.0.0.1:1"};
  options.security = security();
  Waits waits;
  Collector collector;
  const auto client = DataClient::create(std::move(options), collector, waits, Log::silent()).value();
  const auto connected = client->connect(200ms);
  REQUIRE_FALSE(connected.has_value());
  CHECK(connected.error().code == Code::kStartup);
  CHECK_THAT(connected.error().message, Catch::Contains("server 0 at 127.0.0.1:1"));
}

TEST_CASE("invalid messages end the sender's stream but not the server", "[rpc]") {
  Pair pair;
  pair.connect();
  const std::vector<float> large(kvstore::kSliceElementsMax + 1);
  Message stolen = Pair::message({}, 0, 0);
  auto& header = std::get<Header>(stolen.head);
  SECTION("incarnation of another worker") {
    header.incarnation++;
  }
  SECTION("wrong magic number") {
    header.magic = 0;
  }
  SECTION("payload of another size than announced") {
    header.element_count = 100;
  }
  SECTION("payload larger than the largest slice") {
    stolen = Pair::message(large, 0, 0);
  }
  SECTION("answer instead of a request") {
    header.kind = Kind::kAnswer;
  }
  SECTION("control message with the incarnation of another worker") {
    stolen = Pair::control({}, 0, 0);
    std::get<kvstore::ControlRequest>(stolen.head).incarnation++;
  }
  SECTION("control message with a payload that is too large") {
    stolen = Pair::control(large, 0, 0);
  }
  SECTION("control answer instead of a request") {
    stolen.head = kvstore::ControlAnswer{};
  }
  pair.pipe->send(std::move(stolen));
  REQUIRE(pair.collector.wait([&] { return pair.collector.reconnected == 1; }));
  const std::vector<float> values = random_floats(10);
  pair.pipe->send(Pair::message(values, 0, 7));
  REQUIRE(pair.collector.wait([&] { return pair.collector.count == 1; }));
  CHECK(pair.server_failed.get_future().wait_for(0s) == std::future_status::timeout);
}

TEST_CASE("a message larger than any slice is refused for good, and the error says that it is too large", "[rpc]") {
  Pair pair;
  std::promise<Error> failed;
  pair.client->on_failure([&](const Error& error) { failed.set_value(error); });
  pair.connect();
  const std::vector<float> values = random_floats(10);
  SECTION("from a worker") {
    pair.pipe->send(Pair::message(too_many_floats(), 0, 0));
  }
  SECTION("from a server") {
    pair.echo.answers_too_much = true;
    pair.pipe->send(Pair::message(values, 0, 0));
  }
  std::future<Error> error = failed.get_future();
  REQUIRE(error.wait_for(dtrain::test::kPatience) == std::future_status::ready);
  CHECK_THAT(error.get().text(), Catch::Contains("server 0 at 127.0.0.1:") && Catch::Contains("larger than max"));
  CHECK(pair.collector.count == 0);
  CHECK(pair.server_failed.get_future().wait_for(0s) == std::future_status::timeout);
}

TEST_CASE("a worker that does not read is not read from, and is cut off when it takes nothing for too long", "[rpc]") {
  const dtrain::test::TempDir dir;
  Log log = Log::silent();
  REQUIRE(log.add_file(dir.path("log")).has_value());
  DataServerOptions options{{}, security()};
  options.unread_max = 2 << 20;
  options.unread_limit = 200ms;
  Pair pair(security(), kIncarnation, std::move(options), log);
  pair.connect();
  const std::vector<float> values = random_floats(kvstore::kSliceElementsMax);
  constexpr size_t kMessages = 200;  // far more than both ends and the network hold
  pair.collector.gate = false;
  for (uint64_t step = 0; step < kMessages; step++) pair.pipe->send(Pair::message(values, 0, step));
  dtrain::test::await([&] { return log.error_count() != 0; });
  CHECK(pair.echo.count < kMessages);
  pair.collector.gate = true;
  pair.collector.gate.notify_all();
  REQUIRE(pair.collector.wait([&] { return pair.collector.reconnected == 1; }));
  CHECK_THAT(*read_file(dir.path("log")),
             Catch::Contains("worker 0 has read none of the 2 MiB that have been waiting on lane 0"));
  CHECK(pair.server_failed.get_future().wait_for(0s) == std::future_status::timeout);
  pair.pipe->send(Pair::message({}, 0, 1000));
  CHECK(pair.collector.wait([&] { return pair.collector.steps[0].back() == 1000; }));
}

TEST_CASE("a control message that claims more bytes than it has is no message", "[rpc]") {
  MessageReader reader;
  for (const uint32_t size : {uint32_t{1}, kControlBytesMax, kControlBytesMax + 1, UINT32_MAX}) {
    const ControlPrefix prefix{.size = size};
    const grpc::Slice bytes(&prefix, sizeof(prefix));
    CHECK_FALSE(reader.read(grpc::ByteBuffer(&bytes, 1)).has_value());
  }
}

TEST_CASE("an exception in a server's handler is reported to its owner", "[rpc]") {
  Pair pair;
  pair.connect();
  pair.echo.throws = true;
  const std::vector<float> values = random_floats(10);
  pair.pipe->send(Pair::message(values, 0, 0));
  std::future<Error> error = pair.server_failed.get_future();
  REQUIRE(error.wait_for(dtrain::test::kPatience) == std::future_status::ready);
  CHECK(error.get().message == "this server is broken");
  REQUIRE(pair.collector.wait([&] { return pair.collector.reconnected == 1; }));
  pair.pipe->send(Pair::message(values, 0, 1));  // a second failure is not reported
  REQUIRE(pair.collector.wait([&] { return pair.collector.reconnected == 2; }));
}

TEST_CASE("a handler that runs out of memory ends its server or worker with an error that says so", "[rpc]") {
  const std::vector<float> values = random_floats(10);
  Pair pair;
  std::promise<Error> failed;
  pair.client->on_failure([&](const Error& error) { failed.set_value(error); });
  pair.connect();
  pair.echo.lacks_memory = true;
  pair.pipe->send(Pair::message(values, 0, 0));
  REQUIRE(pair.collector.wait([&] { return pair.collector.reconnected == 1; }));
  const Error at_server = pair.server_failed.get_future().get();
  CHECK(at_server.code == Code::kDevice);
  CHECK_THAT(at_server.message, Catch::Contains("not enough memory for a gradient or weights"));
  pair.echo.lacks_memory = false;
  pair.collector.lacks_memory = true;
  pair.pipe->send(Pair::message(values, 0, 0));
  std::future<Error> error = failed.get_future();
  REQUIRE(error.wait_for(dtrain::test::kPatience) == std::future_status::ready);
  CHECK_THAT(error.get().message, Catch::Contains("not enough memory for a message from a server"));
}

// The memory of messages without an owner may be freed once the client is closed. If gRPC still read it, the sanitizers
// would report it.
TEST_CASE("a closed client no longer uses the memory of messages in flight", "[rpc]") {
  for (int round = 0; round < 5; round++) {
    Pair pair;
    pair.connect();
    auto values = std::make_unique<std::vector<float>>(random_floats(kvstore::kSliceElementsMax));
    for (uint64_t step = 0; step < 8; step++) pair.pipe->send(Pair::message(*values, 0, step));
    pair.client->close();
    values.reset();
    pair.pipe->send(Pair::message({}, 0, 9));  // sent after close(): dropped
  }
}

}  // namespace dtrain::rpc
