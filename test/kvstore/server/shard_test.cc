// Tests a shard message by message.
#include "kvstore/server/shard.h"

#include <catch2/catch.hpp>

#include "kvstore/conversation.h"
#include "kvstore/server/accumulator.h"
#include "kvstore/server/shard_slice.h"
#include "kvstore/server/versioned_array.h"
#include "kvstore/wire/chunks.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

TEST_CASE("a push of a key that was never initialised is an error reply", "[kvstore]") {
  Conversation talk(1);
  talk.push(0, 0, 0, {1, 2, 3, 4});
  const Peer::Received answer = talk.peers[0]->take();
  CHECK(answer.header.status == Status::kUnknownKey);
  CHECK(answer.header.kind == Kind::kAnswer);
  CHECK(answer.header.step == 0);
  talk.push(0, 3, 0, {1, 2, 3, 4});  // belongs to another server
  CHECK(talk.status_of(0) == Status::kUnknownKey);
  talk.push(0, 99, 0, {1, 2, 3, 4});
  CHECK(talk.status_of(0) == Status::kUnknownKey);
  talk.send(Conversation::header(Kind::kPullState, 0, 0, 1, 0, 1));
  CHECK(talk.status_of(0) == Status::kUnknownKey);
  CHECK(talk.shard->counts().refused == 4);
}

TEST_CASE("messages that do not fit are refused and change nothing", "[kvstore]") {
  Conversation talk(2);
  talk.assign(0, {1, 1, 1, 1});
  talk.push(0, 0, 0, {1, 2, 3});  // not up to the last element: nothing is complete
  CHECK(talk.peers[0]->inbox.empty());
  talk.push(1, 0, 0, {1, 2, 3, 4, 5});
  CHECK(talk.status_of(1) == Status::kBadSize);
  talk.push(1, 0, 1, {1, 2, 3, 4});
  CHECK(talk.status_of(1) == Status::kRejected);  // a future step
  Header gap = Conversation::header(Kind::kPush, 1, 0, 0, 0, 1);
  gap.first_element = 2;
  gap.element_count = 2;
  const std::vector<float> two = {1, 2};
  Loopback pipe(*talk.shard, talk.peers[1]);
  pipe.send(make_message(gap, std::as_bytes(std::span(two)), nullptr, true));
  CHECK(talk.peers[1]->inbox.empty());  // the beginning was lost with a connection and will come again
  Message broken =
      make_message(Conversation::header(Kind::kPush, 1, 0, 0, 0, 1), std::as_bytes(std::span(two)), nullptr, true);
  broken.header.element_count = 2;
  broken.header.payload_crc ^= 1;
  pipe.send(broken);
  CHECK(talk.status_of(1) == Status::kRejected);
  Header half = Conversation::header(Kind::kPush, 1, 0, 0, 0, 1);
  half.encoding = Encoding::kFloat16;
  half.element_count = 4;
  pipe.send(make_message(half, std::as_bytes(std::span(two)), nullptr, true));
  CHECK(talk.status_of(1) == Status::kBadSize);
  Header stranger = Conversation::header(Kind::kPull, 1, 0, 0, 0, 0);
  stranger.rank = 2;
  pipe.send({stranger, {}, nullptr});
  CHECK(talk.status_of(1) == Status::kRejected);
  talk.send(Conversation::header(Kind::kAssign, 1, 0, 1, 0, 0), {9, 9, 9, 9});
  CHECK(talk.status_of(1) == Status::kRejected);  // only rank 0 sets values
  talk.send(Conversation::header(Kind::kPull, 1, 0, 0, 5, 0));
  CHECK(talk.status_of(1) == Status::kRejected);  // beyond its own pushes
  talk.send(Conversation::header(Kind::kAnswer, 1, 0, 0, 5, 0));
  CHECK(talk.peers[1]->inbox.empty());
  talk.send(Conversation::header(Kind::kPull, 1, 0, 0, 0, 0));
  CHECK(talk.peers[1]->take().values == std::vector<float>{1, 1, 1, 1});
}

TEST_CASE("a key learns as its multipliers say", "[kvstore]") {
  for (const double rate : {0.0, 0.5}) {
    kvstore::ShardOptions options = options_for(sync::bsp(1));
    options.parameters[0].learning_rate = rate;
    Conversation talk(options);
    talk.assign(0, {1, 1, 1, 1});
    talk.push(0, 0, 0, {2, 2, 2, 2});
    CHECK(talk.peers[0]->take().values == std::vector<float>(4, static_cast<float>(1 + 2 * rate)));
  }
}

// Three pushes of one key, then a pull. A push is acknowledged when its round has been applied.
TEST_CASE("three pushes and a pull", "[kvstore]") {
  Conversation talk(2);
  talk.assign(0, {1, 1, 1, 1});
  for (uint64_t step = 0; step < 3; step++) {
    for (uint32_t rank = 0; rank < 2; rank++) {
      talk.send(Conversation::header(Kind::kPush, rank, 0, step, 0, rank), std::vector<float>(4, 1.0f + rank));
      if (rank == 0) CHECK(talk.peers[0]->inbox.empty());
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
      const Peer::Received ack = talk.peers[rank]->take();
      CHECK(ack.header.status == Status::kOk);
      CHECK(ack.header.version == step + 1);
      CHECK(ack.values.empty());
    }
  }
  talk.send(Conversation::header(Kind::kPull, 1, 0, 0, 3, 0));
  CHECK(talk.peers[1]->take().values == std::vector<float>(4, 10));
}

TEST_CASE("a push that comes again is dropped and answered", "[kvstore]") {
  Conversation talk(2);
  talk.assign(1, std::vector<float>(kBig, 0));
  const std::vector<float> ones(kBig, 1);
  talk.push(0, 1, 0, ones);
  talk.push(0, 1, 0, ones);  // after a reconnect, while the round is open
  CHECK(talk.peers[0]->inbox.empty());
  talk.push(1, 1, 0, ones, 0);
  for (uint32_t rank = 0; rank < 2; rank++) {
    const Peer::Received first = talk.peers[rank]->take();
    const Peer::Received second = talk.peers[rank]->take();
    CHECK(first.header.status == (rank == 0 ? Status::kDuplicate : Status::kOk));
    CHECK(first.values == std::vector<float>(kChunkElements, 2));
    CHECK(second.header.first_element == kChunkElements);
    CHECK(second.values == std::vector<float>(kBig - kChunkElements, 2));
    CHECK(talk.peers[rank]->inbox.empty());
  }
  talk.push(1, 1, 0, ones);  // its answer was lost
  CHECK(talk.peers[1]->take().header.status == Status::kDuplicate);
  CHECK(talk.shard->counts().updates == 1);
  CHECK(talk.shard->counts().pushes == 2);
  CHECK(talk.shard->counts().duplicates == 2);
}

// A gradient of two chunks: first chunk 1 alone, because the connection broke during chunk 0 and the worker has not
// noticed yet; then both; then chunk 0 alone and both again.
TEST_CASE("a connection that breaks in mid-push adds no chunk twice and loses none", "[kvstore]") {
  Conversation talk(1);
  talk.assign(1, std::vector<float>(kBig, 0));
  const std::vector<float> ones(kBig, 1);
  const auto push_chunk = [&](uint64_t step, size_t first, size_t count) {
    Header header = Conversation::header(Kind::kPushPull, 0, 1, step, step + 1, 1);
    header.first_element = static_cast<uint32_t>(first);
    header.element_count = static_cast<uint32_t>(count);
    const auto payload = std::as_bytes(std::span(ones).subspan(first, count));
    Loopback(*talk.shard, talk.peers[0]).send(make_message(header, payload, nullptr, true));
  };
  push_chunk(0, kChunkElements, kBig - kChunkElements);
  CHECK(talk.peers[0]->inbox.empty());
  talk.push(0, 1, 0, ones);
  for (int chunk = 0; chunk < 2; chunk++) CHECK(talk.peers[0]->take().values.front() == 1);
  push_chunk(1, 0, kChunkElements);
  talk.push(0, 1, 1, ones);
  for (int chunk = 0; chunk < 2; chunk++) {
    const Peer::Received answer = talk.peers[0]->take();
    CHECK(answer.header.status == Status::kOk);
    CHECK(std::all_of(answer.values.begin(), answer.values.end(), [](float x) { return x == 2; }));
  }
  CHECK(talk.peers[0]->inbox.empty());
}

TEST_CASE("an older incarnation may not speak", "[kvstore]") {
  Conversation talk(2);
  talk.assign(0, {1, 1, 1, 1});
  talk.push(1, 0, 0, {1, 1, 1, 1});
  talk.shard->admit(1, 777);
  talk.push(1, 0, 0, {1, 1, 1, 1});
  CHECK(talk.status_of(1) == Status::kStaleIncarnation);
  Header replacement = Conversation::header(Kind::kPushPull, 1, 0, 0, 1, 1);
  replacement.incarnation = 777;
  talk.send(replacement, {5, 5, 5, 5});  // the same step again: recognized across incarnations
  talk.push(0, 0, 0, {1, 1, 1, 1}, 0);
  const Peer::Received answer = talk.peers[1]->take();
  CHECK(answer.header.status == Status::kDuplicate);
  CHECK(answer.values == std::vector<float>{3, 3, 3, 3});
}

TEST_CASE("who waits too long is named, and for whom", "[kvstore]") {
  Conversation talk(3);
  talk.send(Conversation::header(Kind::kPull, 1, 0, 0, 0, 0));
  const auto warning = [&] {
    const std::vector<std::string> lines = talk.shard->overdue(0);
    REQUIRE(lines.size() == 1);
    return lines[0];
  };
  CHECK_THAT(warning(), Catch::Matches("key 0 slice 0 version 0: worker 1 waits [0-9.]+ m?s; "
                                       "missing: worker 0, which has not set the value"));
  talk.assign(0, {1, 1, 1, 1}, 417);
  CHECK(talk.status_of(1) == Status::kOk);
  CHECK(talk.shard->overdue(0).empty());
  talk.push(1, 0, 417, {1, 1, 1, 1});
  CHECK_THAT(warning(), Catch::Matches("key 0 slice 0 version 418: worker 1 waits [0-9.]+ m?s; "
                                       "missing: worker 0, worker 2"));
  CHECK(talk.shard->overdue(30).empty());
  CHECK(talk.shard->leave(0).has_value());
  CHECK(talk.shard->leave(2).has_value());
  CHECK(talk.status_of(1) == Status::kOk);
  CHECK(talk.shard->overdue(0).empty());
}

TEST_CASE("half a gradient of a worker that left is taken out, or the job cannot go on", "[kvstore]") {
  for (const bool deterministic : {true, false}) {
    ShardOptions options = options_for(sync::bsp(2));
    options.deterministic = deterministic;
    Conversation talk(options);
    talk.assign(0, {1, 1, 1, 1});
    talk.push(1, 0, 0, {7, 7});
    const Result<> left = talk.shard->leave(1);
    CHECK(left.has_value() == deterministic);
    if (!left) CHECK(left.error().message.find("key 0 slice 0 was half received") != std::string::npos);
    if (!deterministic) continue;
    talk.push(0, 0, 0, {1, 2, 3, 4});
    CHECK(talk.peers[0]->take().values == std::vector<float>{2, 3, 4, 5});
    talk.shard->join(1, 1);
    talk.push(0, 0, 1, {1, 1, 1, 1});
    CHECK(talk.peers[0]->inbox.empty());
  }
}

TEST_CASE("an assignment is recognised when it comes again", "[kvstore]") {
  Conversation talk(2);
  talk.assign(0, {1, 1, 1, 1});
  talk.push(0, 0, 0, {1, 1, 1, 1});
  talk.send(Conversation::header(Kind::kAssign, 0, 0, 1, 0, 0), {1, 1, 1, 1});  // its acknowledgment was lost
  CHECK(talk.status_of(0) == Status::kDuplicate);
  talk.push(1, 0, 0, {1, 1, 1, 1}, 0);
  CHECK(talk.peers[0]->take().values == std::vector<float>{3, 3, 3, 3});
}

// The first chunk comes again between the others, as when a connection breaks and lost chunks are sent again.
TEST_CASE("an assignment whose chunks come again is still complete", "[kvstore]") {
  Conversation talk(1);
  const std::vector<float> values(kBig, 4);
  const auto assign_chunk = [&](size_t first, size_t count) {
    Header header = Conversation::header(Kind::kAssign, 0, 1, 1, 0, 0);
    header.first_element = static_cast<uint32_t>(first);
    header.element_count = static_cast<uint32_t>(count);
    const auto payload = std::as_bytes(std::span(values).subspan(first, count));
    Loopback(*talk.shard, talk.peers[0]).send(make_message(header, payload, nullptr, true));
  };
  const size_t third = kChunkElements / 2;
  assign_chunk(2 * third, third);
  assign_chunk(0, third);
  assign_chunk(third, third);
  assign_chunk(0, third);
  CHECK(talk.peers[0]->inbox.empty());
  assign_chunk(2 * third, third);
  CHECK(talk.status_of(0) == Status::kOk);
  talk.send(Conversation::header(Kind::kPull, 0, 1, 0, 0, 0));
  CHECK(talk.peers[0]->take().values == std::vector<float>(kChunkElements, 4));
}

// The rate drops at epoch 1, after 10 samples. The update that ends the epoch still has the old rate. Each gradient is
// divided by the samples that contributed.
TEST_CASE("the rate follows the samples, whoever brought them", "[kvstore]") {
  ShardOptions options = options_for(sync::bsp(2));
  options.rule.schedule = {.base = 0.25, .factor = 0.5, .step_epochs = {1}, .every_epochs = 0};
  options.rule.samples_per_epoch = 10;
  Conversation talk(options);
  talk.assign(0, {4, 4, 4, 4});
  std::vector<float> seen;
  for (uint64_t step = 0; step < 4; step++) {
    talk.push(0, 0, step, {3, 3, 3, 3}, 3);
    talk.push(1, 0, step, {2, 2, 2, 2}, 2);
    seen.push_back(talk.peers[1]->take().values[0]);
  }
  CHECK(seen == std::vector<float>{3.75, 3.5, 3.375, 3.25});
}

// Chunks are checked when they arrive; the machine gets the Push later, when the round may have changed.
TEST_CASE("a future push does not count when its step has come", "[kvstore]") {
  const ShardOptions options = options_for(sync::bsp(2));
  ShardSlice slice(options, options.placement[0], 0, false);
  const auto peer = std::make_shared<Peer>();
  const std::vector<float> ones(4, 1);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(ones))};
  const auto request = [&](Kind kind, uint32_t rank, uint64_t step) {
    Header header = Conversation::header(kind, rank, 0, step, kind == Kind::kAssign ? 0 : step + 1, 0);
    header.element_count = 4;
    header.payload_bytes = 16;
    return Request{peer, header};
  };
  slice.assign(request(Kind::kAssign, 0, 1), pieces);
  CHECK(peer->take().header.status == Status::kOk);
  const Request early = request(Kind::kPushPull, 1, 1);
  CHECK(slice.take_push(early, pieces));
  for (uint32_t rank = 0; rank < 2; rank++) {
    const Request push = request(Kind::kPushPull, rank, 0);
    CHECK(slice.take_push(push, pieces));
    slice.finish_push(push);
  }
  CHECK(peer->take().values == std::vector<float>(4, 3));
  CHECK(peer->take().values == std::vector<float>(4, 3));
  slice.finish_push(early);
  CHECK(peer->take().header.status == Status::kRejected);
  CHECK(slice.counts().pushes == 2);
}

TEST_CASE("a shard refuses what it cannot hold", "[kvstore]") {
  ShardOptions options = options_for(sync::bsp(1));
  options.rule.optimizer.name = "nonesuch";
  CHECK(Shard::create(options).error().code == Code::kUsage);
  options = options_for(sync::bsp(1));
  options.placement[0].count = uint64_t{1} << 33;
  CHECK(Shard::create(options).error().code == Code::kUsage);
  CHECK(Shard::create(options_for(sync::bsp(0))).error().code == Code::kUsage);
}

TEST_CASE("what was lent stays as it was while the array moves on", "[kvstore]") {
  VersionedArray array(3);
  array.writable()[0] = 1;
  LentValues one = array.lend();
  array.writable()[0] = 2;
  LentValues two = array.lend();
  array.writable()[0] = 3;
  CHECK(one.values[0] == 1);
  CHECK(two.values[0] == 2);
  CHECK(array.values()[0] == 3);
  CHECK(array.buffers() == 3);
  one = {};
  const LentValues three = array.lend();
  array.writable()[1] = 4;
  CHECK(array.values()[0] == 3);
  CHECK(three.values[1] == 0);
  CHECK(array.buffers() == 3);  // the released buffer was used again
  std::optional<VersionedArray> gone(std::in_place, 2);
  gone->writable()[1] = 5;
  const LentValues last = gone->lend();
  gone.reset();
  CHECK(last.values[1] == 5);
}

TEST_CASE("a sum in rank order does not depend on who comes first", "[kvstore]") {
  const std::vector<float> values[] = {{1e8f, 1}, {-1e8f, 2}, {1, 3}};
  const auto sum_of = [&](const std::vector<uint32_t>& order, Accumulator::Order how) {
    Accumulator sum(2, how);
    for (const uint32_t rank : order) {
      for (size_t i = 0; i < 2; i++) {  // in two chunks
        const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(&values[rank][i], 1))};
        sum.take(rank, i, 1, pieces);
      }
      sum.complete(rank, 1);
    }
    return std::vector<float>(sum.total().begin(), sum.total().end());
  };
  const std::vector<float> by_rank = sum_of({0, 1, 2}, Accumulator::Order::kRank);
  CHECK(by_rank == std::vector<float>{1, 6});
  CHECK(sum_of({2, 0, 1}, Accumulator::Order::kRank) == by_rank);
  CHECK(sum_of({0, 1, 2}, Accumulator::Order::kArrival) == by_rank);
  CHECK(sum_of({0, 2, 1}, Accumulator::Order::kArrival) == std::vector<float>{0, 6});  // the order matters
}
