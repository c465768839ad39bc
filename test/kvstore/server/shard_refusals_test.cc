// What a shard refuses.

#include "kvstore/conversation.h"
#include "kvstore/server/shard.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

TEST_CASE("a push for an uninitialized key gets an error reply", "[kvstore]") {
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
  talk.control(0, 0, 1, PullState{0});
  CHECK(talk.status_of(0) == Status::kUnknownKey);
  CHECK(talk.shard->counts().refused == 4);
}

TEST_CASE("messages that do not fit the slice are refused and change nothing", "[kvstore]") {
  Conversation talk(2);
  talk.assign(0, {1, 1, 1, 1});
  for (const std::vector<float>& wrong : {std::vector<float>{1, 2, 3}, std::vector<float>{1, 2, 3, 4, 5}}) {
    talk.push(1, 0, 0, wrong);
    CHECK(talk.status_of(1) == Status::kBadSize);
    talk.control(0, 0, 2, AssignValues{}, wrong);
    CHECK(talk.status_of(0) == Status::kBadSize);
  }
  talk.push(1, 0, 1, {1, 2, 3, 4});
  CHECK(talk.status_of(1) == Status::kRejected);  // a future step
  talk.push(1, 0, UINT64_MAX, {1, 2, 3, 4});
  CHECK(talk.status_of(1) == Status::kRejected);
  const std::vector<float> four = {1, 2, 3, 4};
  Loopback pipe(*talk.shard, talk.peers[1]);
  Header broken = Conversation::header(Kind::kPush, 1, 0, 0, 1);
  Message message = make_message(broken, four, nullptr, true);
  std::get<Header>(message.head).payload_crc ^= 1;
  pipe.send(message);
  CHECK(talk.status_of(1) == Status::kCorrupt);
  message = make_message(Conversation::header(Kind::kPush, 1, 0, 0, 1), std::span(four).first(2), nullptr, true);
  std::get<Header>(message.head).encoding = Encoding::kFloat16;
  std::get<Header>(message.head).element_count = 4;
  pipe.send(message);
  CHECK(talk.status_of(1) == Status::kBadSize);
  Header stranger = Conversation::header(Kind::kPull, 1, 0, 0);
  stranger.rank = 2;
  pipe.send({stranger});
  CHECK(talk.status_of(1) == Status::kRejected);
  talk.pull(1, 0, 5);
  CHECK(talk.status_of(1) == Status::kRejected);  // beyond its own pushes
  talk.send(Conversation::header(Kind::kAnswer, 1, 0, 0));
  pipe.send({ControlAnswer{}});
  CHECK(talk.peers[1]->inbox.empty());
  talk.pull(1, 0, 0);
  CHECK(talk.peers[1]->take().values == std::vector<float>{1, 1, 1, 1});
}

TEST_CASE("values are not assigned without the optimizer state that belongs to them", "[kvstore]") {
  ShardOptions options = options_for(sync::bsp(2));
  options.rule.optimizer.momentum = 0.5;  // one slot
  Conversation talk(options);
  const std::vector<float> ones(4, 1), nines(4, 9);
  talk.control(0, 0, 9, AssignValues{{}, 2}, ones);
  CHECK(talk.status_of(0) == Status::kBadSize);  // more arrays than the optimizer has
  talk.control(0, 0, 3, AssignState{0}, ones);   // of another assignment
  talk.control(0, 0, 9, AssignValues{{}, 1}, ones);
  CHECK(talk.peers[0]->inbox.empty());
  talk.pull(1, 0, 0);
  CHECK(talk.peers[1]->inbox.empty());
  talk.control(0, 0, 9, AssignState{0}, nines);
  CHECK(talk.peers[0]->inbox.empty());
  talk.control(0, 0, 9, AssignValues{{}, 1}, ones);
  CHECK(talk.status_of(0) == Status::kOk);
  CHECK(talk.peers[1]->take().values == ones);
  talk.control(1, 0, 9, PullState{0});
  CHECK(talk.peers[1]->take().values == nines);
}

TEST_CASE("control messages that do not fit the slice are refused and change nothing", "[kvstore]") {
  ShardOptions options = options_for(sync::bsp(2));
  options.rule.optimizer.momentum = 0.5;  // one slot
  Conversation talk(options);
  talk.control(1, 0, 9, AssignValues{}, {9, 9, 9, 9});
  CHECK(talk.status_of(1) == Status::kRejected);  // only rank 0 sets the first values
  talk.control(1, 0, 9, AssignState{0}, {9, 9, 9, 9});
  CHECK(talk.status_of(1) == Status::kRejected);
  talk.assign(0, {1, 1, 1, 1});
  talk.control(0, 0, 9, AssignState{1}, {9, 9, 9, 9});
  CHECK(talk.status_of(0) == Status::kBadSize);  // a slot that the optimizer does not have
  talk.control(0, 0, 9, AssignState{0}, {9, 9, 9});
  CHECK(talk.status_of(0) == Status::kBadSize);
  talk.control(1, 0, 9, PullState{1});
  CHECK(talk.status_of(1) == Status::kBadSize);
  const std::vector<float> four(4, 9);
  Message broken = make_message(ControlRequest{.rank = 0, .incarnation = 100, .request = 9, .what = AssignValues{}},
                                four, nullptr, true);
  std::get<ControlRequest>(broken.head).payload_crc ^= 1;
  Loopback(*talk.shard, talk.peers[0]).send(broken);
  CHECK(talk.status_of(0) == Status::kCorrupt);
  broken = make_message(ControlRequest{.rank = 0, .incarnation = 100, .request = 9, .what = AssignState{0}}, four,
                        nullptr, true);
  std::get<ControlRequest>(broken.head).payload_crc ^= 1;
  Loopback(*talk.shard, talk.peers[0]).send(broken);
  talk.control(0, 0, 9, AssignValues{}, {9, 9, 9, 9});
  CHECK(talk.status_of(0) == Status::kCorrupt);  // for both messages of the assignment
  talk.control(0, 0, 9, AssignValues{}, {9, 9, 9, 9});
  CHECK(talk.status_of(0) == Status::kCorrupt);  // also when the values alone come again
  talk.control(1, 0, 9, PullState{0});
  CHECK(talk.peers[1]->take().values == std::vector<float>(4, 0));
  talk.pull(1, 0, 0);
  CHECK(talk.peers[1]->take().values == std::vector<float>(4, 1));
}

TEST_CASE("messages of an older incarnation are refused", "[kvstore]") {
  Conversation talk(2);
  talk.assign(0, {1, 1, 1, 1});
  talk.push(1, 0, 0, {1, 1, 1, 1});
  talk.shard->admit(1, 777);
  talk.push(1, 0, 0, {1, 1, 1, 1});
  CHECK(talk.status_of(1) == Status::kStaleIncarnation);
  Header replacement = Conversation::header(Kind::kPush, 1, 0, 0, 1);
  replacement.incarnation = 777;
  talk.send(replacement, {5, 5, 5, 5});  // the same step again: recognized across incarnations
  talk.push(0, 0, 0, {1, 1, 1, 1});
  const Peer::Received answer = talk.peers[1]->take();
  CHECK(answer.status == Status::kDuplicate);
  CHECK(answer.values == std::vector<float>{2, 2, 2, 2});
}

TEST_CASE("a shard refuses invalid options", "[kvstore]") {
  ShardOptions options = options_for(sync::bsp(1));
  options.rule.optimizer.name = "nonesuch";
  CHECK(Shard::create(options).error().code == Code::kUsage);
  options = options_for(sync::bsp(1));
  options.placement[0].count = kSliceElementsMax + 1;
  CHECK(Shard::create(options).error().code == Code::kUsage);
  CHECK(Shard::create(options_for(sync::bsp(0))).error().code == Code::kUsage);
}

TEST_CASE("a push with a broken checksum is refused, counted, and accepted when it is sent again", "[kvstore]") {
  ShardOptions options = options_for(sync::bsp(1));
  std::vector<uint64_t> reported;
  options.on_corrupt = [&](uint32_t rank, uint64_t count) { reported.push_back(rank + count); };
  Conversation talk(options);
  talk.assign(0, {1, 1, 1, 1});
  const std::vector<float> gradient = {1, 2, 3, 4};
  Message message = make_message(Conversation::header(Kind::kPush, 0, 0, 0, 1), gradient, nullptr, true);
  std::get<Header>(message.head).payload_crc ^= 1;
  for (int i = 0; i < 2; i++) {
    Loopback(*talk.shard, talk.peers[0]).send(message);
    const Peer::Received answer = talk.peers[0]->take();
    CHECK(answer.status == Status::kCorrupt);
    CHECK(answer.header.request == std::get<Header>(message.head).request);
  }
  CHECK(reported == std::vector<uint64_t>{1, 2});
  talk.push(0, 0, 0, gradient);
  const Peer::Received answer = talk.peers[0]->take();
  CHECK(answer.status == Status::kOk);
  CHECK(answer.values == std::vector<float>{2, 3, 4, 5});
  CHECK(talk.shard->counts().corrupt == 2);
  CHECK(talk.shard->counts().refused == 2);
  CHECK(talk.shard->counts().pushes == 1);
}
