#include "kvstore/wire/faults.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <tuple>

#include "base/random.h"
#include "kvstore/cluster.h"
#include "kvstore/plain_training.h"
#include "support/catch.h"
#include "support/patience.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;
using std::chrono::milliseconds;

namespace {

// The content of one message, as seen from the other side.
struct Seen {
  uint32_t key = 0;
  uint64_t step = 0;
  float value = 0;
  bool operator==(const Seen&) const = default;
};

class SeenMessages {
 public:
  void add(const Head& head, Pieces payload) {
    const auto& header = std::get<Header>(head);
    std::vector<float> values(byte_count(payload) / sizeof(float));
    copy_floats(payload, values);
    const std::lock_guard lock(mutex_);
    seen_.push_back({header.key, header.step, values.empty() ? 0 : values[0]});
    changed_.notify_all();
  }
  std::vector<Seen> wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return seen_.size() >= count; });
    return seen_;
  }
  std::vector<Seen> seen() { return wait_for(0); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Seen> seen_;
};

class FakePipe final : public Pipe {
 public:
  void send(Message message) override {
    const std::lock_guard lock(gate);
    log.add(message.head, {&message.payload, 1});
  }
  SeenMessages log;
  std::mutex gate;
};

class FakeStore final : public ClientEvents {
 public:
  void on_message(uint32_t, const Head& head, Pieces payload) override {
    if (throws) throw std::runtime_error("this store is broken");
    thread = std::this_thread::get_id();
    log.add(head, payload);
  }
  void on_reconnected(uint32_t server) override {
    Header header;
    header.step = server;
    told.add(header, {});
  }
  SeenMessages log;
  SeenMessages told;
  std::thread::id thread;
  std::atomic<bool> throws = false;
};

// Both ends of a transport, with faults between them.
struct Between {
  // `faults` is indexed by server.
  explicit Between(std::vector<Faults> faults) {
    for (size_t s = 0; s < faults.size(); s++) pipes.push_back(std::make_shared<FakePipe>());
    faulty =
        std::make_unique<FaultyTransport>(3, faults, store, [this](const Error& error) { failed.set_value(error); });
    wrapped = faulty->wrap(std::vector<std::shared_ptr<Pipe>>(pipes.begin(), pipes.end()));
  }
  // Sends a message of one float, whose memory is overwritten afterwards.
  void send(uint32_t server, uint32_t key, uint64_t step, float value) {
    wrapped[server]->send(message(key, step, value));
    value_ = -1;
  }
  void answer(uint32_t server, uint32_t key, uint64_t step, float value) {
    const Message m = message(key, step, value);
    faulty->on_message(server, m.head, {&m.payload, 1});
  }
  Message message(uint32_t key, uint64_t step, float value) {
    value_ = value;
    Header header;
    header.step = step;
    header.key = key;
    return make_message(header, std::span(&value_, 1), nullptr, true);
  }

  FakeStore store;
  std::promise<Error> failed;
  std::vector<std::shared_ptr<FakePipe>> pipes;
  std::vector<std::shared_ptr<Pipe>> wrapped;
  std::unique_ptr<FaultyTransport> faulty;

 private:
  float value_ = 0;
};

std::function<Faults(Connection)> everywhere(const Faults& faults) {
  return [faults](Connection) { return faults; };
}

// Trains all workers with plain_training's gradients and returns worker 0's weights, which all workers must have.
std::vector<float> train(Cluster& cluster, uint32_t workers, uint64_t begin, uint64_t end) {
  cluster.on_each([&](uint32_t w) -> Result<> {
    for (uint64_t step = begin; step < end; step++) {
      clear_gradients(cluster.arrays(w));
      add_gradient(cluster.arrays(w), static_cast<int64_t>(step * workers + w));
      DT_TRY_VOID(cluster.step(w, step, 3 + w));
    }
    return {};
  });
  const std::vector<float> weights = weights_of(cluster.arrays(0));
  for (uint32_t w = 1; w < workers; w++) CHECK(weights_of(cluster.arrays(w)) == weights);
  return weights;
}

// Each of the four workers has different numbers before.
void share_statistics(Cluster& cluster) {
  cluster.on_each([&](uint32_t w) {
    for (size_t i = 0; i < 2; i++) fill(cluster.arrays(w).statistic(i), static_cast<float>(10 * w + i + 1));
    return cluster.store(w).share_statistics(1);
  });
}

const ClusterOptions kFourByTwo{.workers = 4,
                                .servers = 2,
                                .parameters = kPlainShapes,
                                .statistics = {{5}, {2000}},
                                .bucket_begin = {0, 2},
                                .rule = momentum_rule(),
                                .deterministic = true,
                                .bigarray_bound = 1000};

}  // namespace

TEST_CASE("the fate of a message depends only on its seed and connection and direction and number",
          "[kvstore][faults]") {
  const Faults faults{.drop = 0.1, .dup = 0.2, .delay_min = milliseconds(5), .delay_max = milliseconds(50), .seed = 7};
  constexpr uint64_t kMessages = 100'000;
  int lost = 0, doubled = 0;
  double delays = 0;
  for (uint64_t n = 0; n < kMessages; n++) {
    const Fate fate = fate_of(faults, {1, 2}, Direction::kToServer, n);
    const Fate again = fate_of(faults, {1, 2}, Direction::kToServer, n);
    REQUIRE(std::tie(fate.copies, fate.delay) == std::tie(again.copies, again.delay));
    lost += fate.copies == 0 ? 1 : 0;
    doubled += fate.copies == 2 ? 1 : 0;
    for (const FaultDelay delay : fate.delay) REQUIRE((delay >= milliseconds(5) && delay < milliseconds(50)));
    delays += fate.delay[0].count();
  }
  // Five standard deviations: of the binomial distribution, sqrt(n p (1 - p)), and of the mean of a uniform
  // distribution.
  CHECK(std::abs(lost - 10'000) < 5 * 95);
  CHECK(std::abs(doubled - 18'000) < 5 * 122);  // of the messages that were not lost
  CHECK(std::abs(delays / kMessages - 27.5) < 5 * 13 / 316.0);

  // Other streams give other numbers.
  const auto delay = [&](uint64_t seed, Connection connection, Direction direction, uint64_t n) {
    Faults of_seed = faults;
    of_seed.seed = seed;
    return fate_of(of_seed, connection, direction, n).delay[0].count();
  };
  const double one = delay(7, {1, 2}, Direction::kToServer, 0);
  CHECK(one != delay(8, {1, 2}, Direction::kToServer, 0));
  CHECK(one != delay(7, {2, 1}, Direction::kToServer, 0));
  CHECK(one != delay(7, {1, 2}, Direction::kToWorker, 0));
  CHECK(one != delay(7, {1, 2}, Direction::kToServer, 1));
}

TEST_CASE("delayed and duplicated messages keep the order within a slice in both directions", "[kvstore][faults]") {
  Between between({{.dup = 0.5, .delay_max = milliseconds(3), .seed = 5}});
  constexpr uint32_t kKeys = 5;
  constexpr uint64_t kSteps = 40;
  for (uint64_t step = 0; step < kSteps; step++) {
    for (uint32_t key = 0; key < kKeys; key++) {
      between.send(0, key, step, static_cast<float>(step));
      between.answer(0, key, step, static_cast<float>(step));
    }
  }
  const FaultCounts counts = between.faulty->counts();
  CHECK(counts.messages == 2 * kKeys * kSteps);
  CHECK(counts.doubled > 150);
  CHECK(counts.lost == 0);
  std::vector<Seen> all;
  while (all.size() < counts.messages + counts.doubled) {
    all = between.pipes[0]->log.seen();
    const std::vector<Seen> answers = between.store.log.seen();
    all.insert(all.end(), answers.begin(), answers.end());
    std::this_thread::yield();
  }
  bool overtaken = false;
  for (SeenMessages* log : {&between.pipes[0]->log, &between.store.log}) {
    std::map<uint32_t, uint64_t> newest;
    uint64_t newest_of_all = 0;
    for (const Seen& seen : log->seen()) {
      CHECK(seen.value == static_cast<float>(seen.step));  // not what its memory holds by now
      CHECK(seen.step >= newest[seen.key]);
      CHECK(seen.step <= newest[seen.key] + 1);
      newest[seen.key] = seen.step;
      overtaken = overtaken || seen.step < newest_of_all;
      newest_of_all = std::max(newest_of_all, seen.step);
    }
  }
  CHECK(overtaken);
}

TEST_CASE("messages after a lost one of their slice are lost until the store is told", "[kvstore][faults]") {
  const Faults faults{.drop = 0.3, .seed = 2};
  Between between({Faults{}, faults});
  // Computes beforehand which messages are lost.
  std::vector<Seen> expected;
  std::array<bool, 3> lost = {};
  uint64_t n = 0;
  REQUIRE(fate_of(faults, {3, 1}, Direction::kToServer, 0).copies == 1);
  std::unique_lock hold(between.pipes[1]->gate);  // stops the delivering thread at the first message
  for (uint64_t step = 0; step < 4; step++) {
    for (uint32_t key = 0; key < 3; key++) {
      lost[key] = fate_of(faults, {3, 1}, Direction::kToServer, n++).copies == 0 || lost[key];
      if (!lost[key]) expected.push_back({key, step, 1});
      between.send(1, key, step, 1);
    }
  }
  hold.unlock();
  REQUIRE(std::ranges::count(lost, true) >= 1);
  REQUIRE_FALSE(expected.empty());
  CHECK(between.store.told.wait_for(1) == std::vector<Seen>{{0, 1, 0}});  // one notice for all losses of server 1
  std::vector<Seen> arrived = between.pipes[1]->log.wait_for(expected.size());
  std::ranges::sort(arrived, {}, [](const Seen& s) { return std::tuple(s.step, s.key); });
  CHECK(arrived == expected);
  // After the notice it may send again: new messages, new fates.
  std::fill(lost.begin(), lost.end(), false);
  size_t count = expected.size();
  for (uint32_t key = 0; key < 3; key++) {
    if (fate_of(faults, {3, 1}, Direction::kToServer, n++).copies > 0) count++;
    between.send(1, key, 9, 1);
  }
  CHECK(between.pipes[1]->log.wait_for(count).size() == count);
  CHECK(between.faulty->counts().breaks >= 1);
}

TEST_CASE("the same seed loses the same messages, and another seed loses others", "[kvstore][faults]") {
  const auto arrived = [](uint64_t seed) {
    Between between({{.drop = 0.2, .dup = 0.2, .seed = seed}});
    for (uint32_t key = 0; key < 200; key++) between.send(0, key, 0, 1);  // one per slice: none is lost with another
    const FaultCounts counts = between.faulty->counts();
    std::vector<Seen> seen = between.pipes[0]->log.wait_for(200 - counts.lost + counts.doubled);
    std::ranges::sort(seen, {}, &Seen::key);
    return seen;
  };
  CHECK(arrived(1) == arrived(1));
  CHECK(arrived(1) != arrived(2));
}

TEST_CASE("connections to servers without faults are not wrapped", "[kvstore][faults]") {
  Between between({Faults{}, Faults{.dup = 1}});
  CHECK(between.wrapped[0] == between.pipes[0]);
  CHECK(between.wrapped[1] != between.pipes[1]);
  between.answer(0, 4, 2, 1);
  CHECK(between.store.thread == std::this_thread::get_id());
  between.faulty->on_reconnected(0);
  CHECK(between.store.told.seen() == std::vector<Seen>{{0, 0, 0}});
  between.answer(1, 4, 3, 1);
  CHECK(between.store.log.wait_for(3).size() == 3);
  CHECK(between.faulty->counts().messages == 1);
}

TEST_CASE("messages in flight are discarded if the transport's own connection breaks", "[kvstore][faults]") {
  const FaultDelay hour = std::chrono::hours(1);
  Between between({{.delay_min = hour, .delay_max = hour}, {.delay_max = milliseconds(1)}});
  between.send(0, 0, 1, 1);
  between.answer(0, 0, 1, 1);
  between.answer(1, 0, 2, 2);
  between.faulty->on_reconnected(0);
  CHECK(between.store.told.seen() == std::vector<Seen>{{0, 0, 0}});
  CHECK(between.store.log.wait_for(1) == std::vector<Seen>{{0, 2, 2}});
  // Messages that are still delayed are discarded at the end, without waiting. The pipes can still be used.
  between.send(0, 0, 3, 3);
  between.faulty.reset();
  between.send(0, 0, 4, 4);
  CHECK(between.pipes[0]->log.seen().empty());
}

TEST_CASE("an exception in the store's handler is reported to its owner", "[kvstore][faults]") {
  Between between({Faults{.dup = 1}});
  between.store.throws = true;
  between.answer(0, 0, 0, 1);
  CHECK(between.failed.get_future().get().message == "this store is broken");
}

// Arrays are compared in parentheses, because Catch needs minutes to print them.
//
// 10 % of the messages lost, 10 % duplicated, delays of up to a few ms.
TEST_CASE("faults do not change a bit of a deterministic job", "[kvstore][faults]") {
  constexpr uint64_t kSteps = 8;
  Cluster undisturbed(kFourByTwo);
  undisturbed.initialize();
  const std::vector<float> expected = train(undisturbed, 4, 0, kSteps);
  const TrainingState state = undisturbed.store(0).state().value();
  FaultCounts counts;
  uint64_t dropped = 0;
  for (uint64_t seed = 1; seed <= 6; seed++) {
    INFO("seed " << seed);
    ClusterOptions options = kFourByTwo;
    options.faults = everywhere({.drop = 0.1, .dup = 0.1, .delay_max = milliseconds(4), .seed = seed});
    options.shard_threads = seed % 2 == 0 ? 2 : 0;
    options.sums_only = seed % 3 == 0;
    Cluster cluster(options);
    cluster.initialize();
    CHECK((train(cluster, 4, 0, kSteps) == expected));
    const TrainingState same = cluster.store(0).state().value();
    CHECK(same.samples == state.samples);
    CHECK(same.updates == state.updates);
    REQUIRE(same.slots.size() == state.slots.size());
    for (size_t i = 0; i < state.slots.size(); i++) CHECK((same.slots[i].values == state.slots[i].values));
    CHECK(cluster.counts().pushes == undisturbed.counts().pushes);
    CHECK(cluster.counts().updates == undisturbed.counts().updates);
    CHECK(cluster.counts().refused == 0);
    dropped += cluster.counts().duplicates;
    counts.lost += cluster.faults().lost;
    counts.doubled += cluster.faults().doubled;
    counts.breaks += cluster.faults().breaks;
  }
  CHECK(undisturbed.counts().duplicates == 0);
  CHECK(dropped > 100);
  CHECK(counts.lost > 100);
  CHECK(counts.doubled > 100);
  CHECK(counts.breaks > 20);
}

// The state is sent before the values and has no answer of its own, so that losing part of it could go unnoticed.
TEST_CASE("a job under faults resumes, shares statistics and returns its state", "[kvstore][faults]") {
  const bool sums_only = GENERATE(false, true);
  INFO("sums_only " << sums_only);
  ClusterOptions calm = kFourByTwo;
  calm.sums_only = sums_only;
  Cluster first(calm);
  first.initialize();
  train(first, 4, 0, 3);
  const TrainingState state = first.store(0).state().value();
  const std::vector<float> expected = train(first, 4, 3, 5);
  share_statistics(first);
  const std::vector<float> expected_state = first.store(0).state().value().slots[2].values;

  for (uint64_t seed = 1; seed <= 3; seed++) {
    INFO("seed " << seed);
    ClusterOptions options = calm;
    options.faults = everywhere({.drop = 0.1, .dup = 0.2, .delay_max = milliseconds(2), .seed = seed});
    Cluster begin(calm);
    begin.initialize();
    train(begin, 4, 0, 3);
    Cluster cluster(options);
    for (size_t k = 0; k < kPlainShapes.size(); k++) {
      const std::span<const float> from = begin.arrays(0).weight(k);
      std::ranges::copy(from, cluster.arrays(0).weight(k).begin());
    }
    cluster.initialize(state);
    CHECK((train(cluster, 4, 3, 5) == expected));
    share_statistics(cluster);
    for (size_t i = 0; i < 2; i++) {
      const float shared = first.arrays(0).statistic(i)[0];
      for (uint32_t w = 0; w < 4; w++) CHECK(all_equal(cluster.arrays(w).statistic(i), shared));
    }
    CHECK((cluster.store(0).state().value().slots[2].values == expected_state));
  }
}

// As with --inject worker:1 and server:0. The first array has three slices.
TEST_CASE("faults of one worker or server affect only its connections", "[kvstore][faults]") {
  const Faults faults{.drop = 0.1, .delay_max = milliseconds(1), .seed = 4};
  Cluster cluster({.workers = 3,
                   .servers = 2,
                   .parameters = {{600'000}, {9}, {8}},
                   .rule = plain_rule(3),
                   .faults = [&](Connection c) { return c.worker == 1 || c.server == 0 ? faults : Faults{}; }});
  cluster.initialize();
  cluster.on_each([&](uint32_t w) -> Result<> {
    for (uint64_t step = 0; step < 4; step++) {
      for (size_t k = 0; k < 3; k++) fill(cluster.arrays(w).gradient(k), static_cast<float>(w + 1));
      DT_TRY_VOID(cluster.step(w, step, 1));
    }
    return {};
  });
  for (uint32_t w = 0; w < 3; w++) {
    for (size_t k = 0; k < 3; k++) CHECK(all_equal(cluster.arrays(w).weight(k), 24));
  }
  CHECK(cluster.faults().lost > 10);
}

TEST_CASE("a canceled store stops although messages are in flight", "[kvstore][faults]") {
  const FaultDelay hour = std::chrono::hours(1);
  ClusterOptions options{.workers = 2, .parameters = {{4}}, .rule = plain_rule(1)};
  options.faults = everywhere({.drop = 0.5, .delay_min = hour, .delay_max = hour});
  Cluster cluster(options);
  std::vector<std::future<Result<>>> waiters;
  for (uint32_t w = 0; w < 2; w++) {
    waiters.push_back(std::async(std::launch::async, [&cluster, w] {
      return cluster.store(w).initialize({&cluster.arrays(w).view(), 1}, {});
    }));
  }
  dtrain::test::await([&] { return cluster.waits().open().size() >= 2; });
  for (uint32_t w = 0; w < 2; w++) cluster.store(w).cancel({Code::kPeerLost, "worker 1 was lost", {}});
  for (auto& waiter : waiters) CHECK(waiter.get().error().message == "worker 1 was lost");
}
