// How much a server takes from the network before it reads it.
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <vector>

#include "exchange.h"
#include "rpc/channel.h"
#include "rpc/data_message.h"
#include "rpc/data_method.h"
#include "support/catch.h"
#include "support/patience.h"

namespace dtrain::rpc {
namespace {

using namespace std::chrono_literals;
using kvstore::Head;
using kvstore::Header;
using kvstore::Pieces;

constexpr uint32_t kWorkersHere = 4, kLanesHere = 4, kMessagesMax = 200;

const std::vector<float>& slice_values() {
  static const std::vector<float> values(kvstore::kSliceElementsMax, 1);
  return values;
}

// Answers each message with a whole slice. A worker that does not take the answers is soon not read from.
class Answers final : public kvstore::ServerEvents {
 public:
  void on_message(const std::shared_ptr<kvstore::Pipe>& peer, const Head& head, Pieces) override {
    Header answer = std::get<Header>(head);
    answer.kind = kvstore::Kind::kAnswer;
    count++;
    peer->send(kvstore::make_message(answer, slice_values(), nullptr, false));
  }
  std::atomic<uint64_t> count = 0;
};

// A stream of a worker that sends all it can and takes no answer.
class Greedy final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Greedy(uint16_t port, uint32_t rank, uint32_t lane)
      : channel_(make_channel({"127.0.0.1", port}, test::ExchangeOptions::security(), Traffic::kControl)),
        stub_(channel_) {
    sign(context_, test::ExchangeOptions::security());
    context_.AddMetadata(kRankKey, std::to_string(rank));
    context_.AddMetadata(kIncarnationKey, std::to_string(1000 + rank));
    context_.AddMetadata(kLaneKey, std::to_string(lane));
    Header header;
    header.rank = rank;
    header.incarnation = 1000 + rank;
    message_ = to_buffer(kvstore::make_message(header, slice_values(), nullptr, false), outstanding_);
    stub_.PrepareBidiStreamingCall(&context_, exchange_method(), {}, this);
    StartWrite(&message_);
    StartCall();
  }
  // Waits until the server has ended the stream.
  void await_end() {
    REQUIRE(broken_.get_future().wait_for(dtrain::test::kPatience) == std::future_status::ready);
    context_.TryCancel();  // gRPC reports the end of a stream only when its messages have been read
    REQUIRE(done_.get_future().wait_for(dtrain::test::kPatience) == std::future_status::ready);
  }
  [[nodiscard]] uint64_t written() const { return written_; }

 private:
  void OnWriteDone(bool ok) override {
    if (!ok) return broken_.set_value();
    if (++written_ < kMessagesMax) StartWrite(&message_);
  }
  void OnDone(const grpc::Status&) override { done_.set_value(); }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::shared_ptr<Outstanding> outstanding_ = std::make_shared<Outstanding>();
  grpc::ByteBuffer message_;
  std::atomic<uint64_t> written_ = 0;
  std::promise<void> broken_, done_;
};

}  // namespace

TEST_CASE("the streams of a server share its look-ahead, and each has at least one message of it", "[rpc]") {
  const auto part = [](uint64_t streams) {
    return look_ahead_of_stream({.listen = {}, .security = {}, .streams = streams});
  };
  CHECK(part(0) == kLookAheadMax);
  CHECK(part(4) == kLookAheadMax);
  CHECK(part(32) == 16 << 20);
  CHECK(part(256) == 2 << 20);
  CHECK(part(4'000) == kDataMessageBytesMax);
}

// The server reads a message or two of each stream, and the stream ends because its answers are not taken. What was
// written until then is what the server has read or gRPC has taken ahead, and one message under way.
TEST_CASE("a server that does not read takes no more than its look-ahead from all streams together", "[rpc]") {
  Waits waits;
  Answers answers;
  constexpr uint64_t kStreams = kWorkersHere * kLanesHere, kMiB = 1 << 20;
  DataServerOptions options{.listen = {}, .security = test::ExchangeOptions::security()};
  options.unread_max = 0;
  options.unread_limit = 1s;
  options.look_ahead = 2 * kStreams * kMiB;
  options.streams = kStreams;
  const auto server = DataServer::start(std::move(options), waits, Log::silent()).value();
  server->serve({1000, 1001, 1002, 1003}, answers, nullptr);
  std::vector<std::unique_ptr<Greedy>> streams;
  for (uint32_t rank = 0; rank < kWorkersHere; rank++) {
    for (uint32_t lane = 0; lane < kLanesHere; lane++) {
      streams.push_back(std::make_unique<Greedy>(server->port(), rank, lane));
    }
  }
  uint64_t written = 0;
  for (const auto& stream : streams) {
    stream->await_end();
    written += stream->written();
  }
  INFO(written << " messages written, " << answers.count << " read");
  CHECK(answers.count >= kStreams);
  CHECK(written <= answers.count + (2 + 1) * kStreams);
  server->close();
}

// A message that the others of its round wait for is never behind the bound.
TEST_CASE("training goes on, with the same bits, if a server takes only one message of each stream ahead", "[rpc]") {
  const auto train = [](uint64_t look_ahead) {
    test::ExchangeOptions options;
    options.workers = 6;
    options.servers = 1;
    options.shapes = {{3'000'000}, {900'000}, {70'000}, {9}};
    options.rule.schedule.base = 0.05;
    options.look_ahead = look_ahead;
    test::Exchange exchange(options);
    exchange.on_each([&](uint32_t rank, test::ExchangeWorker& worker) -> Result<> {
      DT_TRY_VOID(worker.store->initialize(worker.views, {}));
      for (uint64_t step = 0; step < 4; step++) {
        for (size_t k = 0; k < options.shapes.size(); k++) {
          std::ranges::fill(worker.arrays[0]->gradient(k), static_cast<float>(rank + step + k));
        }
        DT_TRY_VOID(worker.step(step, 1));
      }
      return {};
    });
    std::vector<float> weights;
    for (size_t k = 0; k < options.shapes.size(); k++) {
      const std::span<const float> of_key = exchange.workers[5]->arrays[0]->weight(k);
      weights.insert(weights.end(), of_key.begin(), of_key.end());
    }
    return weights;
  };
  CHECK(train(1) == train(512 << 20));
}

}  // namespace dtrain::rpc
