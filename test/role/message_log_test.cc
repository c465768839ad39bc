#include "role/worker/message_log.h"

#include <array>
#include <memory>
#include <vector>

#include "base/file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using dtrain::test::must;

namespace {

// Records what it is given.
class Recorder final : public kvstore::ClientEvents, public kvstore::Pipe {
 public:
  void on_message(uint32_t server, const kvstore::Head&, kvstore::Pieces payload) override {
    received.push_back(server);
    bytes += kvstore::byte_count(payload);
  }
  void on_reconnected(uint32_t server) override { reconnected.push_back(server); }
  void send(kvstore::Message message) override { sent.push_back(std::move(message)); }

  std::vector<uint32_t> received, reconnected;
  std::vector<kvstore::Message> sent;
  size_t bytes = 0;
};

}  // namespace

TEST_CASE("--verbose 2 logs each message and passes it on", "[role]") {
  const test::TempDir dir;
  const int verbosity = GENERATE(1, 2);
  const Log log = [&] {
    Log to_file = Log::to_stderr("0", verbosity);
    must(to_file.add_file(dir.path("log")));
    return to_file;
  }();
  Recorder store;
  const auto pipe = std::make_shared<Recorder>();
  role::MessageLog messages(store, log);
  const std::vector<std::shared_ptr<kvstore::Pipe>> pipes =
      messages.wrap(std::array<std::shared_ptr<kvstore::Pipe>, 1>{pipe});

  const std::array<std::byte, 8> values{};
  kvstore::Header push{.kind = kvstore::Kind::kPush, .request = 17, .step = 5, .key = 3, .slice = 1};
  pipes.at(0)->send({.head = push, .payload = values});
  const std::array<std::span<const std::byte>, 1> pieces = {values};
  push.kind = kvstore::Kind::kAnswer;
  push.status = kvstore::Status::kDuplicate;
  messages.on_message(2, push, pieces);
  messages.on_message(2, kvstore::ControlAnswer{.id = {3, 1}, .request = 18}, {});
  messages.on_reconnected(1);
  log.flush();

  REQUIRE(pipe->sent.size() == 1);
  CHECK(std::get<kvstore::Header>(pipe->sent[0].head).request == 17);
  CHECK(pipe->sent[0].payload.data() == values.data());
  CHECK(store.received == std::vector<uint32_t>{2, 2});
  CHECK(store.bytes == 8);
  CHECK(store.reconnected == std::vector<uint32_t>{1});
  const std::string text = must(read_file(dir.path("log")));
  if (verbosity == 1) {
    CHECK(text.empty());
    return;
  }
  CHECK_THAT(text, Catch::Contains("sends server 0 push 17 of key 3, slice 1: step 5, 8 bytes\n"));
  CHECK_THAT(text,
             Catch::Contains("receives from server 2 answer to 17 of key 3, slice 1: step 5, status 1, 8 bytes\n"));
  CHECK_THAT(text, Catch::Contains("receives from server 2 answer to 18 of key 3, slice 1\n"));
  CHECK_THAT(text, Catch::Contains("server 1 is connected again\n"));
}
