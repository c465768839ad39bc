// What the schemes do to weights, tested with a shard message by message and with whole jobs in this process. test/sync
// tests which workers wait for each other.
#include <algorithm>
#include <set>
#include <thread>

#include "base/file.h"
#include "kvstore/cluster.h"
#include "kvstore/conversation.h"
#include "kvstore/plain_training.h"
#include "kvstore/server/staleness_record.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

namespace {

const std::vector<float> kOnes(4, 1);

// Group A has two members, group B has one.
ShardOptions gsp_options(double momentum) {
  ShardOptions options = options_for(sync::gsp({0, 0, 1}));
  options.weight = {StalenessWeight::Rule::kPower, 1};
  options.rule.schedule.base = 0.1;
  options.rule.optimizer.momentum = momentum;
  return options;
}

// The weights after updates of A, B, B, A. All gradients are 1.
std::vector<float> gsp_sequence(Conversation& talk) {
  talk.assign(0, kOnes);
  std::vector<float> seen;
  const auto update = [&](const std::vector<uint32_t>& members, uint64_t step) {
    for (const uint32_t member : members) talk.push(member, 0, step, kOnes);
    for (const uint32_t member : members) {
      const float weight = talk.peers[member]->take().values[0];
      if (member == members.front()) seen.push_back(weight);
      CHECK(weight == seen.back());
    }
  };
  update({0, 1}, 0);
  update({2}, 0);
  update({2}, 1);
  update({0, 1}, 1);
  return seen;
}

}  // namespace

TEST_CASE("the weight of an update depends on its staleness", "[kvstore][schemes]") {
  using Rule = StalenessWeight::Rule;
  CHECK(weight_of({}, 7) == 1);
  CHECK(weight_of({Rule::kPower, 1}, 3) == 1.0 / 3);
  CHECK(weight_of({Rule::kPower, 0.5}, 4) == Approx(0.5));
  CHECK(weight_of({Rule::kFloor, 0.25}, 2) == 0.5);
  CHECK(weight_of({Rule::kFloor, 0.25}, 9) == 0.25);
  for (const Rule rule : {Rule::kNone, Rule::kPower, Rule::kFloor}) CHECK(weight_of({rule, 0.1}, 1) == 1);
}

// Staleness Y = 1, 2, 1, 3.
TEST_CASE("gsp divides a late group's gradient by its staleness", "[kvstore][schemes]") {
  Conversation plain(gsp_options(0));
  const std::vector<double> expected = {0.9, 0.85, 0.75, 0.716667};
  const std::vector<float> seen = gsp_sequence(plain);
  for (size_t i = 0; i < expected.size(); i++) CHECK(seen[i] == Approx(expected[i]));

  // v <- .9 v - .1 / Y; w <- w + v: the momentum is not divided.
  Conversation moving(gsp_options(0.9));
  const std::vector<float> with_momentum = gsp_sequence(moving);
  double w = 1, v = 0;
  const double staleness[] = {1, 2, 1, 3};
  for (size_t i = 0; i < 4; i++) {
    v = 0.9 * v - 0.1 / staleness[i];
    w += v;
    CHECK(with_momentum[i] == Approx(w));
  }
}

TEST_CASE("a member receives the version of its own group despite other groups' updates", "[kvstore][schemes]") {
  Conversation talk(gsp_options(0));
  talk.assign(0, kOnes);
  talk.push(0, 0, 0, kOnes);
  talk.push(1, 0, 0, kOnes);
  const float own = talk.peers[0]->take().values[0];
  for (uint64_t step = 0; step < 3; step++) talk.push(2, 0, step, kOnes);
  talk.pull(1, 0, 1);
  CHECK(talk.peers[1]->take().values[0] == own);
  const Peer::Received again = talk.peers[1]->take();
  CHECK(again.values[0] == own);
  CHECK(again.header.samples_applied == 2);  // as of its own group's update: all members see the same number
  CHECK(talk.peers[2]->take().header.samples_applied == 3);
}

TEST_CASE("a refresh gives all workers the newest weights and resets staleness", "[kvstore][schemes]") {
  Conversation talk(gsp_options(0));
  talk.assign(0, kOnes);
  talk.push(0, 0, 0, kOnes);
  talk.push(1, 0, 0, kOnes);
  talk.push(2, 0, 0, kOnes);
  for (const auto& peer : talk.peers) peer->inbox.clear();
  std::vector<float> weights;
  for (uint32_t w = 0; w < 3; w++) {
    talk.send(Conversation::header(Kind::kRefresh, w, 0, 1));
    const Peer::Received answer = talk.peers[w]->take();
    CHECK(answer.header.samples_applied == 3);
    weights.push_back(answer.values[0]);
  }
  for (const float weight : weights) CHECK(weight == Approx(0.85));
  talk.push(0, 0, 1, kOnes);
  talk.push(1, 0, 1, kOnes);
  CHECK(talk.peers[0]->take().values[0] == Approx(0.75));  // Y = 1
}

namespace {

void regroup(Conversation& talk, uint32_t rank, uint64_t count, const std::vector<uint32_t>& group_of,
             uint32_t key = 0) {
  talk.control(rank, key, count, Regroup{group_of});
}

}  // namespace

// Group A (two members) and group B (one) have made one update each. Then the groups become C with worker 0 and D with
// workers 1 and 2.
TEST_CASE("new groups begin with the newest weights at the same step", "[kvstore][schemes]") {
  Conversation talk(gsp_options(0));
  talk.assign(0, kOnes);
  for (const uint32_t worker : {0, 1, 2}) talk.push(worker, 0, 0, kOnes);
  for (const auto& peer : talk.peers) peer->inbox.clear();
  regroup(talk, 0, 1001, {0, 1, 1});
  const Peer::Received done = talk.peers[0]->take();
  CHECK(done.status == Status::kOk);
  CHECK(done.control.counters.updates == 2);

  talk.push(0, 0, 2, kOnes);
  CHECK(talk.peers[0]->take().values[0] == Approx(0.75));  // from 0.85, Y = 1
  talk.push(1, 0, 2, kOnes);
  CHECK(talk.peers[1]->inbox.empty());
  regroup(talk, 0, 1001, {0, 1, 1});  // a repeat from before a connection broke: the sum under way stays
  CHECK(talk.status_of(0) == Status::kDuplicate);
  talk.push(2, 0, 2, kOnes);
  for (const uint32_t worker : {1, 2}) CHECK(talk.peers[worker]->take().values[0] == Approx(0.70));  // Y = 2
  CHECK(talk.shard->counts().updates == 4);
}

TEST_CASE("invalid groups are refused, and so are new groups while a worker waits", "[kvstore][schemes]") {
  Conversation talk(gsp_options(0));
  regroup(talk, 0, 1, {0, 1, 1});
  CHECK(talk.status_of(0) == Status::kUnknownKey);
  talk.assign(0, kOnes);
  talk.assign(2, kOnes);
  regroup(talk, 1, 1, {0, 1, 1});
  CHECK(talk.status_of(1) == Status::kRejected);
  regroup(talk, 0, 2, {0, 1, 3});
  CHECK(talk.status_of(0) == Status::kRejected);
  regroup(talk, 0, 2, {0, 1});
  CHECK(talk.status_of(0) == Status::kBadSize);
  regroup(talk, 0, 2, {0, 1, 1}, 2);  // a statistic, whose rounds include all workers
  CHECK(talk.status_of(0) == Status::kRejected);
  talk.push(1, 0, 0, kOnes);
  regroup(talk, 0, 2, {0, 1, 1});
  CHECK(talk.status_of(0) == Status::kRejected);
  talk.push(0, 0, 0, kOnes);
  CHECK(talk.peers[1]->take().values[0] == Approx(0.9));
}

namespace {

// Pushes random gradients in this order of workers. Returns what each worker was answered, in the order of its steps.
std::vector<float> answers(const sync::Policy& policy, const StalenessWeight& weight,
                           const std::vector<uint32_t>& order) {
  ShardOptions options = options_for(policy);
  options.rule = momentum_rule();
  options.weight = weight;
  options.deterministic = true;
  Conversation talk(options);
  talk.assign(0, kOnes);
  std::vector<uint64_t> next(policy.group_of.size(), 0);
  for (const uint32_t worker : order) {
    RandomStream random(6, Use::kTest, worker, next[worker]);
    std::vector<float> gradient(4);
    for (float& g : gradient) g = static_cast<float>(random.uniform(-1, 1));
    talk.push(worker, 0, next[worker]++, gradient, 3);
  }
  std::vector<float> all;
  for (const auto& peer : talk.peers) {
    for (const Peer::Received& answer : peer->inbox) {
      CHECK(answer.status == Status::kOk);
      all.insert(all.end(), answer.values.begin(), answer.values.end());
    }
  }
  CHECK(all.size() == order.size() * 4);
  return all;
}

}  // namespace

TEST_CASE("equivalent schemes give the same bits", "[kvstore][schemes]") {
  const StalenessWeight inverse{StalenessWeight::Rule::kPower, 1};
  const std::vector<uint32_t> alone(20, 0);
  const std::vector<float> bsp = answers(sync::bsp(1), {}, alone);
  CHECK(answers(sync::asp(1), {}, alone) == bsp);
  CHECK(answers(sync::ssp(1, 0), {}, alone) == bsp);
  CHECK(answers(sync::gsp({0}), inverse, alone) == bsp);
  for (uint64_t seed = 1; seed <= 20; seed++) {
    RandomStream random(seed, Use::kTest, 0, 0);
    std::vector<uint32_t> rounds, arrivals;
    for (int round = 0; round < 8; round++) {
      std::vector<uint32_t> ranks = {0, 1, 2};
      std::swap(ranks[0], ranks[static_cast<size_t>(random.below(3))]);
      rounds.insert(rounds.end(), ranks.begin(), ranks.end());
      arrivals.push_back(static_cast<uint32_t>(random.below(3)));
    }
    CHECK(answers(sync::gsp({0, 0, 0}), inverse, rounds) == answers(sync::bsp(3), {}, rounds));
    CHECK(answers(sync::gsp({0, 1, 2}), {}, arrivals) == answers(sync::asp(3), {}, arrivals));
    CHECK(answers(sync::gsp({0, 1, 2}), inverse, rounds) != answers(sync::asp(3), {}, rounds));
  }
}

namespace {

// The weight when `samples` have been applied on top of `before`, in updates of `of_update` samples, with gradients of
// -1. Epochs have 10 samples and the rate drops at epochs 1 and 2. An update that ends an epoch still has the old rate.
double weight_after(uint64_t before, uint64_t samples, uint64_t of_update) {
  double weight = 0;
  for (uint64_t at = before + of_update; at <= samples; at += of_update) {
    weight += at > 20 ? 0.0625 : at > 10 ? 0.125 : 0.25;
  }
  return weight;
}

void check_rates(const sync::Policy& policy, uint64_t of_update, uint64_t before) {
  ShardOptions options = options_for(policy);
  options.rule.schedule = {.base = 0.25, .factor = 0.5, .step_epochs = {1, 2}, .every_epochs = 0};
  options.rule.samples_per_epoch = 10;
  Conversation talk(options);
  talk.assign(0, std::vector<float>(4, 0), {.samples = before, .updates = 0});
  uint64_t last = 0;
  for (uint64_t step = 0; step < 24; step++) {
    for (uint32_t w = 0; w < 2; w++) talk.push(w, 0, step, {-1, -1, -1, -1});
    for (const auto& peer : talk.peers) {
      while (!peer->inbox.empty()) {
        const Peer::Received answer = peer->take();
        last = std::max(last, answer.header.samples_applied);
        CHECK(answer.values[0] == Approx(weight_after(before, answer.header.samples_applied, of_update)));
      }
    }
  }
  CHECK(last > 20);
}

}  // namespace

TEST_CASE("the learning rate drops at the same number of samples in every scheme, also after a resume",
          "[kvstore][schemes]") {
  for (const uint64_t before : {0, 8}) {  // samples of the run that is resumed
    check_rates(sync::bsp(2), 2, before);
    check_rates(sync::bsp(2, 1), 1, before);
    check_rates(sync::asp(2), 1, before);
    check_rates(sync::ssp(2, 1), 1, before);
    check_rates(sync::gsp({0, 1}), 1, before);
  }
}

// 1,000 pushes of ones from 8 threads: none is lost, and each makes its own version.
TEST_CASE("asp loses no update", "[kvstore][schemes]") {
  constexpr uint32_t kWorkers = 8;
  constexpr uint64_t kSteps = 125;
  Conversation talk(options_for(sync::asp(kWorkers)));
  talk.assign(0, std::vector<float>(4, 0));
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < kWorkers; w++) {
    threads.emplace_back([&talk, w] {
      for (uint64_t step = 0; step < kSteps; step++) talk.push(w, 0, step, kOnes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint64_t> versions;
  for (const auto& peer : talk.peers) {
    CHECK(peer->inbox.size() == kSteps);
    for (const Peer::Received& answer : peer->inbox) {
      versions.insert(answer.header.samples_applied);  // each update has one sample
      CHECK(answer.values[0] == static_cast<float>(answer.header.samples_applied));
    }
  }
  CHECK(versions.size() == kWorkers * kSteps);
  CHECK(*versions.rbegin() == kWorkers * kSteps);
  uint64_t recorded = 0;
  for (const uint64_t updates : talk.shard->counts().staleness) recorded += updates;
  CHECK(recorded == kWorkers * kSteps);
}

// The bound is kept, and a parked pull is answered with everything that came in the meantime, not with what was there
// when it was sent.
TEST_CASE("a parked pull is answered with all updates that its bound requires", "[kvstore][schemes]") {
  Conversation talk(options_for(sync::ssp(3, 2)));
  talk.assign(0, std::vector<float>(4, 0));
  for (uint64_t step = 0; step < 2; step++) {
    talk.push(0, 0, step, kOnes);
    CHECK(talk.peers[0]->take().values[0] == static_cast<float>(step + 1));
  }
  talk.push(0, 0, 2, kOnes);  // step 3 begins when the others have done one step
  CHECK(talk.peers[0]->inbox.empty());
  talk.push(1, 0, 0, kOnes);
  CHECK(talk.peers[0]->inbox.empty());
  talk.push(2, 0, 0, kOnes);
  CHECK(talk.peers[0]->take().values[0] == 5);
  CHECK(talk.peers[1]->take().values[0] == 4);
}

// Staleness counts from the weights that a gradient was computed with. These contain all updates that were made while
// the worker's pull was parked.
TEST_CASE("the time for which a pull was parked does not count as staleness", "[kvstore][schemes]") {
  Conversation talk(options_for(sync::ssp(2, 0)));
  talk.assign(0, std::vector<float>(4, 0));
  talk.push(0, 0, 0, kOnes);
  talk.push(1, 0, 0, kOnes);  // staleness 2: computed with version 0
  talk.push(0, 0, 1, kOnes);
  CHECK(talk.shard->counts().staleness == std::vector<uint64_t>{2, 1});
}

TEST_CASE("a round with a backup worker does not wait for the last gradient", "[kvstore][schemes]") {
  Conversation talk(options_for(sync::bsp(3, 1)));
  talk.assign(0, std::vector<float>(4, 0));
  for (uint64_t step = 0; step < 2; step++) {
    talk.push(0, 0, step, kOnes);
    talk.push(1, 0, step, kOnes);
    CHECK(talk.peers[0]->take().header.samples_applied == 2 * (step + 1));
    CHECK(talk.peers[1]->take().values[0] == static_cast<float>(step + 1));
  }
  talk.push(2, 0, 0, std::vector<float>(4, 100));
  const Peer::Received late = talk.peers[2]->take();
  CHECK(late.status == Status::kOk);
  CHECK(late.values == std::vector<float>(4, 2));
  CHECK(late.header.step == 2);  // it continues with the open round
  CHECK(talk.shard->counts().late == 1);
  talk.push(2, 0, 2, kOnes);
  talk.push(1, 0, 2, kOnes);
  CHECK(talk.peers[2]->take().values[0] == 3);
}

TEST_CASE("a late gradient is not added to any sum", "[kvstore][schemes]") {
  Conversation talk(options_for(sync::bsp(2, 1)));
  talk.assign(1, std::vector<float>(kBig, 0));
  talk.push(1, 1, 0, std::vector<float>(kBig, 1));
  CHECK(talk.peers[1]->take().values == std::vector<float>(kBig, 1));
  talk.push(0, 1, 0, std::vector<float>(kBig, 100));
  CHECK(talk.peers[0]->take().values == std::vector<float>(kBig, 1));
  CHECK(talk.shard->counts().late == 1);
}

TEST_CASE("a staleness record reports after every hundred updates of a group", "[kvstore][schemes]") {
  using std::chrono::milliseconds;
  const StalenessRecord::Clock::time_point begin{};
  StalenessRecord record(2, begin);
  std::optional<GroupReport> report;
  for (uint64_t i = 1; i <= kReportUpdates; i++) {
    REQUIRE_FALSE(report);
    record.on_add(1, 0, begin + milliseconds(10 * i));
    record.on_add(1, 2, begin + milliseconds(10 * i + 3));
    report = record.on_apply(1, i == 50 ? 5 : 1, begin + milliseconds(10 * i + 4));
  }
  REQUIRE(report);
  CHECK(report->group == 1);
  CHECK(report->updates == 100);
  CHECK(report->staleness_mean == Approx(1.04));
  CHECK(report->staleness_max == 5);
  CHECK(report->first_wait_s == Approx(0.004));
  CHECK(report->updates_per_s == Approx(100 / 1.004));
  CHECK(record.histogram() == std::vector<uint64_t>{99, 0, 0, 0, 1});
  // The second report is about the second hundred alone.
  const StalenessRecord::Clock::time_point second = begin + milliseconds(1004);
  for (uint64_t i = 1; i <= kReportUpdates; i++) {
    record.on_add(1, 0, second + milliseconds(20 * i));
    report = record.on_apply(1, 2, second + milliseconds(20 * i + 1));
    CHECK(report.has_value() == (i == kReportUpdates));
  }
  REQUIRE(report);
  CHECK(report->updates == 200);
  CHECK(report->staleness_mean == 2);
  CHECK(report->staleness_max == 2);
  CHECK(report->first_wait_s == Approx(0.001));
  CHECK(report->updates_per_s == Approx(100 / 2.001));
}

// Worker 2 is lost in the middle of a step: its gradient has reached one of the two slices.
TEST_CASE("each slice is updated with the mean of the samples that it has got", "[kvstore]") {
  const bool sums_only = GENERATE(false, true);
  INFO("sums only: " << sums_only);
  Cluster cluster({.workers = 3, .parameters = {{4}, {4}}, .rule = plain_rule(1), .sums_only = sums_only});
  cluster.initialize();
  const std::vector<float> values(4, 12);
  kvstore::Header push;
  push.rank = 2;
  push.incarnation = 1002;
  push.request = 1000;
  push.key = 1;
  push.samples = 6;
  const kvstore::Message message = kvstore::make_message(push, values, nullptr, false);
  const std::span<const std::byte> pieces[] = {message.payload};
  cluster.shard(0).on_message(std::make_shared<Peer>(), message.head, pieces);
  cluster.on_each([&](uint32_t w) -> Result<> {
    if (w == 2) {
      cluster.shard(0).leave(2);
      return {};
    }
    for (size_t key = 0; key < 2; key++) fill(cluster.arrays(w).gradient(key), 3);
    return cluster.step(w, 0, 3);
  });
  for (uint32_t w = 0; w < 2; w++) {
    CHECK(all_equal(cluster.arrays(w).weight(0), 1));    // (3 + 3) / (3 + 3)
    CHECK(all_equal(cluster.arrays(w).weight(1), 1.5));  // (3 + 3 + 12) / (3 + 3 + 6)
  }
}
