// Tests a shard message by message.
#include "kvstore/server/shard.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>

#include "kvstore/conversation.h"
#include "kvstore/server/accumulator.h"
#include "kvstore/server/shard_slice.h"
#include "kvstore/server/versioned_array.h"
#include "kvstore/server/waiters.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

TEST_CASE("a key's multipliers scale its learning rate", "[kvstore]") {
  for (const double rate : {0.0, 0.5}) {
    kvstore::ShardOptions options = options_for(sync::bsp(1));
    options.parameters[0].learning_rate = rate;
    Conversation talk(options);
    talk.assign(0, {1, 1, 1, 1});
    talk.push(0, 0, 0, {2, 2, 2, 2});
    CHECK(talk.peers[0]->take().values == std::vector<float>(4, static_cast<float>(1 + 2 * rate)));
  }
}

TEST_CASE("an answer names its request and step", "[kvstore]") {
  Conversation talk(2);
  talk.assign(0, {1, 1, 1, 1}, {.samples = 30, .updates = 7});
  for (uint32_t rank = 0; rank < 2; rank++) talk.push(rank, 0, 7, {1, 1, 1, 1}, 3);
  for (uint32_t rank = 0; rank < 2; rank++) {
    const Header answer = talk.peers[rank]->take().header;
    CHECK(answer.kind == Kind::kAnswer);
    CHECK(answer.request == 8000);
    CHECK(answer.step == 8);
    CHECK(answer.samples_applied == 36);
    CHECK(answer.samples == 6);  // of the round
    CHECK(answer.element_count == 4);
    CHECK(answer.incarnation == 0);
  }
}

TEST_CASE("three rounds of pushes and a pull give the expected weights", "[kvstore]") {
  Conversation talk(2);
  talk.assign(0, {1, 1, 1, 1});
  for (uint64_t step = 0; step < 3; step++) {
    for (uint32_t rank = 0; rank < 2; rank++) {
      talk.push(rank, 0, step, std::vector<float>(4, 1.0f + rank), rank + 1);
      if (rank == 0) CHECK(talk.peers[0]->inbox.empty());
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
      const Peer::Received answer = talk.peers[rank]->take();
      CHECK(answer.status == Status::kOk);
      CHECK(answer.header.step == step + 1);
      CHECK(answer.values == std::vector<float>(4, 2 + static_cast<float>(step)));
    }
  }
  talk.pull(1, 0, 3);
  CHECK(talk.peers[1]->take().values == std::vector<float>(4, 4));
}

TEST_CASE("a repeated push is dropped and answered", "[kvstore]") {
  Conversation talk(2);
  talk.assign(1, std::vector<float>(kBig, 0));
  const std::vector<float> ones(kBig, 1);
  talk.push(0, 1, 0, ones);
  talk.push(0, 1, 0, ones);  // after a reconnect, while the round is open
  CHECK(talk.peers[0]->inbox.empty());
  talk.push(1, 1, 0, ones);
  for (uint32_t rank = 0; rank < 2; rank++) {
    const Peer::Received answer = talk.peers[rank]->take();
    CHECK(answer.status == (rank == 0 ? Status::kDuplicate : Status::kOk));
    CHECK(answer.values == std::vector<float>(kBig, 1));
    CHECK(talk.peers[rank]->inbox.empty());
  }
  talk.push(1, 1, 0, ones);  // its answer was lost
  CHECK(talk.status_of(1) == Status::kDuplicate);
  CHECK(talk.shard->counts().updates == 1);
  CHECK(talk.shard->counts().pushes == 2);
  CHECK(talk.shard->counts().duplicates == 2);
}

// A large slice's update is left to the shard's own threads. Here no thread has reached it when the next messages
// arrive.
TEST_CASE("a deferred update is made before the next event", "[kvstore]") {
  ShardOptions options = options_for(sync::bsp(2));
  options.threads = 1;
  std::atomic<bool> is_damaged = false;
  ShardSlice slice(options, options.placement[1], 0, false, is_damaged);
  const auto peer = std::make_shared<Peer>();
  const std::vector<float> ones(kBig, 1);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(ones))};
  const auto push = [&](uint32_t rank, uint64_t step) {
    Header header = Conversation::header(Kind::kPush, rank, 1, step, 1);
    header.element_count = kBig;
    const bool is_due = slice.push({peer, header}, pieces);
    slice.send_answers();
    return is_due;
  };
  const ControlRequest assign{.id = {1, 0}, .rank = 0, .incarnation = 100, .request = 1, .what = AssignValues{}};
  slice.control({peer, assign}, pieces);
  slice.send_answers();
  CHECK(peer->take().status == Status::kOk);
  CHECK_FALSE(push(0, 0));
  CHECK(push(1, 0));  // the round is complete
  CHECK(peer->inbox.empty());
  CHECK_FALSE(push(0, 0));  // a repeat; the update comes first
  CHECK(peer->take().values == std::vector<float>(kBig, 2));
  CHECK(peer->take().values == std::vector<float>(kBig, 2));
  CHECK(peer->take().status == Status::kDuplicate);
  slice.settle();  // nothing is left
  CHECK(peer->inbox.empty());
  CHECK(slice.counts().updates == 1);
  CHECK_FALSE(push(0, 1));
  CHECK(push(1, 1));
  slice.settle();
  slice.send_answers();
  CHECK(peer->take().values == std::vector<float>(kBig, 3));
}

TEST_CASE("a warning names a worker that waits too long and the missing workers", "[kvstore]") {
  Conversation talk(3);
  talk.pull(1, 0, 0);
  const auto warning = [&] {
    const std::vector<std::string> lines = talk.shard->overdue(0);
    REQUIRE(lines.size() == 1);
    return lines[0];
  };
  CHECK_THAT(warning(),
             Catch::Matches("worker 1 waits [0-9.]+ m?s for 1 slice "
                            "\\(key 0 slice 0 version 0\\); missing: worker 0, which has not set the value"));
  talk.assign(0, {1, 1, 1, 1}, {.samples = 0, .updates = 417});
  CHECK(talk.status_of(1) == Status::kOk);
  CHECK(talk.shard->overdue(0).empty());
  talk.push(1, 0, 417, {1, 1, 1, 1});
  CHECK_THAT(warning(), Catch::Matches("worker 1 waits [0-9.]+ m?s for 1 slice "
                                       "\\(key 0 slice 0 version 418\\); missing: worker 0, worker 2"));
  CHECK(talk.shard->overdue(30).empty());
  talk.shard->leave(0);
  talk.shard->leave(2);
  CHECK(talk.status_of(1) == Status::kOk);
  CHECK(talk.shard->overdue(0).empty());
}

TEST_CASE("a warning has one line for each worker, however many of its slices wait", "[kvstore]") {
  Conversation talk(3);
  talk.pull(2, 2, 0);
  talk.pull(1, 0, 0);
  talk.pull(1, 2, 0);
  const std::vector<std::string> lines = talk.shard->overdue(0);
  REQUIRE(lines.size() == 2);
  const std::string why = "missing: worker 0, which has not set the value";
  CHECK_THAT(lines[0],
             Catch::Matches("worker 1 waits [0-9.]+ m?s for 2 slices \\(first: key 0 slice 0 version 0\\); " + why));
  CHECK_THAT(lines[1], Catch::Matches("worker 2 waits [0-9.]+ m?s for 1 slice \\(key 2 slice 0 version 0\\); " + why));
}

// A gradient comes whole or not at all, so nothing of a round has to be taken out when a worker leaves.
TEST_CASE("a worker can leave a round before and after its gradient arrives", "[kvstore]") {
  for (const bool has_pushed : {true, false}) {
    Conversation talk(2);
    talk.assign(0, {1, 1, 1, 1});
    if (has_pushed) talk.push(1, 0, 0, {7, 7, 7, 7});
    talk.push(0, 0, 0, {1, 2, 3, 4});
    talk.shard->leave(1);
    CHECK(talk.peers[0]->take().values ==
          (has_pushed ? std::vector<float>{5, 5.5, 6, 6.5} : std::vector<float>{2, 3, 4, 5}));
    talk.shard->join(1, 1);
    talk.push(0, 0, 1, {1, 1, 1, 1});
    CHECK(talk.peers[0]->inbox.empty());
  }
}

TEST_CASE("a repeated assignment is recognized", "[kvstore]") {
  Conversation talk(2);
  talk.assign(0, {1, 1, 1, 1});
  talk.push(0, 0, 0, {1, 1, 1, 1});
  talk.control(0, 0, 1, AssignValues{}, {1, 1, 1, 1});  // its acknowledgment was lost
  CHECK(talk.status_of(0) == Status::kDuplicate);
  talk.push(1, 0, 0, {1, 1, 1, 1});
  CHECK(talk.peers[0]->take().values == std::vector<float>{2, 2, 2, 2});
}

// The connection breaks after the state, and all of the assignment is sent again; the state then comes once more.
TEST_CASE("an assignment ends with its values, and a late copy of its state changes nothing", "[kvstore]") {
  ShardOptions options = options_for(sync::bsp(1));
  options.rule.optimizer.momentum = 0.5;
  Conversation talk(options);
  const auto state = [&] {
    talk.control(0, 0, 5, PullState{0});
    return talk.peers[0]->take().values;
  };
  talk.control(0, 0, 1, AssignState{0}, {4, 4, 4, 4});
  talk.control(0, 0, 1, AssignState{0}, {4, 4, 4, 4});
  CHECK(talk.peers[0]->inbox.empty());  // not answered
  talk.assign(0, {1, 1, 1, 1}, {.samples = 20, .updates = 2});
  CHECK(state() == std::vector<float>(4, 4));
  talk.push(0, 0, 2, {0, 0, 0, 0});
  CHECK(talk.status_of(0) == Status::kOk);
  const std::vector<float> moved = state();
  CHECK(moved != std::vector<float>(4, 4));
  talk.control(0, 0, 1, AssignState{0}, {4, 4, 4, 4});
  CHECK(state() == moved);
  talk.control(0, 0, 6, PullCounters{});
  const Peer::Received counters = talk.peers[0]->take();
  CHECK(counters.control.counters.samples == 21);
  CHECK(counters.control.counters.updates == 3);
  CHECK(counters.control.request == 6);
}

// The rate drops at epoch 1, after 10 samples. The update that ends the epoch still has the old rate. Each gradient is
// divided by the samples that contributed.
TEST_CASE("the learning rate follows the number of samples of all workers", "[kvstore]") {
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

TEST_CASE("a statistic is the mean over the workers, weighted by their samples", "[kvstore]") {
  Conversation talk(2);
  talk.assign(2, {0, 0, 0, 0});
  const auto mean = [&](uint64_t step, uint32_t samples_of_0, uint32_t samples_of_1) {
    talk.push(0, 2, step, {1, 10, 0, -8}, samples_of_0);
    talk.push(1, 2, step, {5, 20, 4, 0}, samples_of_1);
    return talk.peers[1]->take().values;
  };
  CHECK(mean(0, 1, 3) == std::vector<float>{4, 17.5, 3, -2});
  CHECK(mean(1, 3, 1) == std::vector<float>{2, 12.5, 1, -6});
  CHECK(mean(2, 0, 0) == std::vector<float>{3, 15, 2, -4});  // without samples, all workers count alike
}

TEST_CASE("lent values stay unchanged while the array is written", "[kvstore]") {
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

TEST_CASE("a sum in rank order does not depend on the order of arrival", "[kvstore]") {
  const std::vector<float> values[] = {{1e8f, 1}, {-1e8f, 2}, {1, 3}};
  const auto sum_of = [&](const std::vector<uint32_t>& order, Accumulator::Order how) {
    GradientBuffers buffers(2);
    Accumulator sum(buffers, how);
    for (const uint32_t rank : order) {
      const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(values[rank]))};
      sum.add(rank, 1, pieces);
    }
    CHECK(sum.samples() == order.size());
    return std::vector<float>(sum.total().begin(), sum.total().end());
  };
  const std::vector<float> by_rank = sum_of({0, 1, 2}, Accumulator::Order::kRank);
  CHECK(by_rank == std::vector<float>{1, 6});
  CHECK(sum_of({2, 0, 1}, Accumulator::Order::kRank) == by_rank);
  CHECK(sum_of({0, 1, 2}, Accumulator::Order::kArrival) == by_rank);
  CHECK(sum_of({0, 2, 1}, Accumulator::Order::kArrival) == std::vector<float>{0, 6});  // the order matters
}

TEST_CASE("the latest request that is due is answered, and a repeat replaces the first copy", "[kvstore]") {
  Waiters waiters;
  const auto request = [](uint32_t rank, uint64_t number) {
    Header header = Conversation::header(Kind::kPull, rank, 0, 0);
    header.request = number;
    return Request{nullptr, header};
  };
  waiters.add(request(1, 10), 4, Status::kOk);
  waiters.add(request(2, 11), 5, Status::kOk);
  waiters.add(request(1, 12), 6, Status::kOk);
  waiters.add(request(1, 13), 6, Status::kDuplicate);
  waiters.add(request(1, 14), 9, Status::kOk);
  CHECK(waiters.all().size() == 4);
  CHECK_FALSE(waiters.take_due(1, 3));
  const std::optional<Waiters::Waiter> due = waiters.take_due(1, 7);
  REQUIRE(due);
  CHECK(due->request.header.request == 13);
  CHECK(due->status == Status::kDuplicate);
  CHECK(waiters.take_due(1, 7)->request.header.request == 10);
  CHECK_FALSE(waiters.take(2, 6));
  waiters.forget(2);
  REQUIRE(waiters.take_all().size() == 1);
  CHECK(waiters.empty());
}

TEST_CASE("an allocation that fails in the middle of an update stops the shard and is reported once", "[kvstore]") {
  ShardOptions options = options_for(sync::bsp(1));
  options.threads = GENERATE(0, 1);  // of the slice that is updated, which is large: the caller's, the shard's own
  std::promise<Error> failed;
  std::atomic<int> failures = 0;
  options.on_failure = [&](const Error& error) {
    if (failures++ == 0) failed.set_value(error);
  };
  options.placement = {{0, 0, 0, kBig, 0}, {1, 0, 0, 4, 0}};
  options.on_update = [](uint64_t) { throw std::bad_alloc(); };  // after the weights, before the answer
  Conversation talk(options);
  const std::vector<float> big(kBig, 1);
  talk.assign(0, big);
  talk.assign(1, {1, 2, 3, 4});
  talk.push(0, 0, 0, big);
  std::future<Error> error = failed.get_future();
  REQUIRE(error.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  const Error cause = error.get();
  CHECK(cause.code == Code::kDevice);
  CHECK_THAT(cause.message, Catch::Contains("not enough memory"));
  talk.pull(0, 0, 1);
  talk.pull(0, 1, 0);
  talk.push(0, 1, 0, {1, 2, 3, 4});
  talk.control(0, 1, 2, PullCounters{});
  CHECK(talk.peers[0]->inbox.empty());
  CHECK(failures == 1);
}

TEST_CASE("what comes between a failure and its report finds a stopped shard", "[kvstore]") {
  ShardOptions options = options_for(sync::bsp(1));
  options.on_update = [](uint64_t) { throw std::runtime_error("broken"); };
  Conversation* talk_to = nullptr;
  options.on_failure = [&](const Error& error) {
    CHECK(error.message == "broken");
    talk_to->pull(0, 0, 1);
    talk_to->push(0, 0, 1, {1, 2, 3, 4});
  };
  Conversation talk(options);
  talk_to = &talk;
  talk.assign(0, {1, 1, 1, 1});
  talk.push(0, 0, 0, {1, 2, 3, 4});
  CHECK(talk.peers[0]->inbox.empty());
  CHECK(talk.shard->counts().updates == 1);
}

TEST_CASE("answers have a checksum only on the pipes that need one", "[kvstore]") {
  Conversation talk(2);
  talk.peers[1]->has_checksums = false;  // every message is checked as it arrives
  talk.assign(0, {1, 1, 1, 1});
  for (uint32_t rank = 0; rank < 2; rank++) talk.push(rank, 0, 0, {1, 2, 3, 4});
  for (uint32_t rank = 0; rank < 2; rank++) {
    CHECK(talk.peers[rank]->take().values == std::vector<float>{2, 3, 4, 5});
    talk.pull(rank, 0, 1);
    CHECK(talk.peers[rank]->take().values == std::vector<float>{2, 3, 4, 5});
  }
}

namespace {

// Records where the values of answers are.
class Places : public Pipe {
 public:
  void send(Message message) override {
    if (!message.payload.empty()) places.insert(message.payload.data());
  }
  [[nodiscard]] bool needs_checksums() const override { return false; }
  std::set<const std::byte*> places;
};

}  // namespace

// An update copies the weights while a snapshot is held. The answers here are sent at once, so all come from the same
// memory if each event releases its own snapshots. In SSP, the slowest worker's push opens the rounds of all others.
TEST_CASE("without snapshots no update copies weights whose answers are sent", "[kvstore]") {
  constexpr uint32_t kWorkers = 8;
  const sync::Policy policy = GENERATE(sync::asp(kWorkers), sync::ssp(kWorkers, 0), sync::bsp(kWorkers));
  const ShardOptions options = options_for(policy);
  const auto shard = Shard::create(options).value();
  const auto peer = std::make_shared<Places>();
  const std::vector<float> ones(4, 1);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(ones))};
  const ControlRequest assign{.id = {0, 0}, .rank = 0, .incarnation = 100, .request = 1, .what = AssignValues{}};
  shard->on_message(peer, assign, pieces);
  for (uint64_t step = 0; step < 3; step++) {
    for (uint32_t rank = 0; rank < kWorkers; rank++) {
      Header push = Conversation::header(Kind::kPush, rank, 0, step, 1);
      push.element_count = 4;
      shard->on_message(peer, push, pieces);
    }
  }
  CHECK(shard->counts().pushes == 3 * kWorkers);
  CHECK(shard->counts().parked == 0);
  CHECK(peer->places.size() == 1);
}

TEST_CASE("a worker that has left is refused, and another process may get its rank", "[kvstore][shard]") {
  Conversation talk(2);
  talk.assign(0, {0, 0, 0, 0});
  talk.push(0, 0, 0, {1, 1, 1, 1});
  CHECK(talk.peers[0]->inbox.empty());  // waits for worker 1
  talk.shard->leave(1);
  CHECK(talk.peers[0]->take().values[0] == 1);
  talk.push(1, 0, 0, {5, 5, 5, 5});
  CHECK(talk.status_of(1) == Status::kStaleIncarnation);
  talk.shard->admit(1, 100 + 1);
  talk.shard->join(1, 1);
  talk.push(1, 0, 1, {3, 3, 3, 3});
  talk.push(0, 0, 1, {1, 1, 1, 1});
  CHECK(talk.peers[0]->take().values[0] == 3);  // 1 + (3 + 1) / 2
}
