// Tests a shard that takes snapshots and returns to them.
#include "kvstore/server/snapshots.h"

#include <bit>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "base/random.h"
#include "kvstore/cluster.h"
#include "kvstore/conversation.h"
#include "support/catch.h"
#include "support/patience.h"
#include "support/temp_dir.h"

namespace dtrain::kvstore {
namespace {

using Catch::Contains;
using Numbers = std::vector<uint64_t>;

// Stops the thread of the snapshots before each file, until it is let go.
class Gate {
 public:
  std::function<void(uint64_t)> hook() {
    return [state = state_](uint64_t) {
      std::unique_lock lock(state->mutex);
      state->reached++;
      state->changed.notify_all();
      state->changed.wait(lock, [&] { return state->is_open || state->passes > 0; });
      if (!state->is_open) state->passes--;
    };
  }
  // Lets this number of files pass, after the last call's.
  void let_pass(int files) {
    const std::lock_guard lock(state_->mutex);
    state_->passes += files;
    state_->changed.notify_all();
  }
  void open() {
    const std::lock_guard lock(state_->mutex);
    state_->is_open = true;
    state_->changed.notify_all();
  }
  // Waits until this number of files has reached the gate.
  void await_reached(int files) {
    std::unique_lock lock(state_->mutex);
    if (!state_->changed.wait_for(lock, test::kPatience, [&] { return state_->reached >= files; })) {
      throw std::runtime_error("no file was written");
    }
  }
  // Opens the gate at the end of the scope, so that the shard can be destroyed.
  struct OpenAtEnd {
    Gate& gate;
    ~OpenAtEnd() { gate.open(); }
  };

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int reached = 0, passes = 0;
    bool is_open = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Receives answers on any thread.
class Mailbox final : public Pipe {
 public:
  void send(Message message) override {
    std::vector<float> values(message.payload.size() / sizeof(float));
    copy_floats({&message.payload, 1}, values);
    const std::lock_guard lock(mutex_);
    answers_.push_back({std::get<Header>(message.head), std::move(values)});
  }
  [[nodiscard]] size_t size() const {
    const std::lock_guard lock(mutex_);
    return answers_.size();
  }
  [[nodiscard]] std::pair<Header, std::vector<float>> at(size_t i) const {
    const std::lock_guard lock(mutex_);
    return answers_.at(i);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<Header, std::vector<float>>> answers_;
};

// A shard with momentum, so that it has optimizer state. Key 1 has several slices in production; here it is small,
// except where a test wants it large.
ShardOptions options_in(const test::TempDir& dir, const sync::Policy& policy, uint64_t every) {
  ShardOptions options = test::options_for(policy);
  options.placement = {{0, 0, 0, 4, 0}, {1, 0, 0, 4, 0}, {2, 0, 0, 4, 0}, {3, 0, 0, 4, 1}};
  options.rule.optimizer.momentum = 0.9;
  options.rule.schedule.base = 0.1;
  options.snapshots = {.every = every, .directory = dir.path(), .job = "job"};
  return options;
}

// The groups of a policy complete their rounds in turn, with gradients that depend on the number of the update.
class Training {
 public:
  // `version`: of the slices, which is also the first step of all workers.
  Training(test::Conversation& talk, sync::Policy policy, uint64_t version)
      : talk_(talk), policy_(std::move(policy)), begin_(version), version_(version) {}

  // Makes each update when all snapshots are written, so that no answer waits.
  void run_to(uint64_t version, std::vector<std::vector<float>>* answers = nullptr) {
    while (version_ < version) {
      const Snapshots* snapshots = talk_.shard->snapshots();
      test::await([&] { return snapshots == nullptr || snapshots->limit() == SnapshotLedger::kNoLimit; });
      run_ahead_to(version_ + 1, answers);
    }
  }
  // Does not wait. Appends the bits of all answers to `answers`, if it is not null.
  void run_ahead_to(uint64_t version, std::vector<std::vector<float>>* answers = nullptr) {
    for (; version_ < version; version_++) {
      for (uint32_t w = 0; w < policy_.group_of.size(); w++) push(w);
      for (const auto& peer : talk_.peers) {
        for (; !peer->inbox.empty(); peer->inbox.pop_front()) {
          REQUIRE(peer->inbox.front().status == Status::kOk);
          if (answers != nullptr) answers->push_back(peer->inbox.front().values);
        }
      }
    }
  }
  void push(uint32_t worker) {
    const uint32_t groups = sync::group_count(policy_);
    if (policy_.group_of[worker] != version_ % groups) return;
    for (uint32_t key = 0; key < 2; key++) {
      RandomStream random(7, Use::kTest, version_, 10 * worker + key);
      std::vector<float> gradient(4);
      for (float& value : gradient) value = static_cast<float>(random.uniform(-1, 1));
      talk_.push(worker, key, begin_ + (version_ - begin_) / groups, gradient, worker + 1);
    }
  }

 private:
  test::Conversation& talk_;
  const sync::Policy policy_;
  const uint64_t begin_;
  uint64_t version_;
};

void assign_all(test::Conversation& talk) {
  talk.assign(0, {1, 2, 3, 4});
  talk.assign(1, {5, 6, 7, 8});
}

std::vector<float> state_of(test::Conversation& talk, uint32_t key) {
  talk.control(0, key, 1'000'000 + key, PullState{0});
  return talk.peers[0]->take().values;
}
Counters counters_of(test::Conversation& talk, uint32_t key) {
  talk.control(0, key, 2'000'000 + key, PullCounters{});
  return talk.peers[0]->take().control.counters;
}

void await_durable(const Shard& shard, const Numbers& numbers) {
  INFO("snapshots");
  test::await([&] { return shard.snapshots()->durable() == numbers; });
}

std::vector<std::string> names_in(const test::TempDir& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("a server in the place of another one continues from a snapshot with the same bits", "[kvstore][snapshots]") {
  const auto [name, policy] = GENERATE(table<std::string, sync::Policy>(
      {{"bsp", sync::bsp(2)}, {"asp", sync::asp(2)}, {"ssp", sync::ssp(2, 1)}, {"gsp", sync::gsp({0, 1, 0})}}));
  const bool by_rank = GENERATE(false, true), is_survivor = GENERATE(false, true);
  INFO(name << " by_rank " << by_rank << " is_survivor " << is_survivor);
  const test::TempDir dir;
  ShardOptions options = options_in(dir, policy, 4);
  options.deterministic = by_rank;

  options.snapshots.every = 0;
  test::Conversation undisturbed(options);
  assign_all(undisturbed);
  Training reference(undisturbed, policy, 0);
  std::vector<std::vector<float>> wanted;
  reference.run_to(8);
  const std::vector<float> state = state_of(undisturbed, 1);
  reference.run_to(14, &wanted);

  options.snapshots.every = 4;
  auto first = std::make_unique<test::Conversation>(options);
  assign_all(*first);
  Training(*first, policy, 0).run_to(10);
  await_durable(*first->shard, {0, 1, 2});
  auto second = is_survivor ? std::move(first) : nullptr;
  if (!is_survivor) {
    first.reset();
    options.snapshots.life = 1;
    second = std::make_unique<test::Conversation>(options);
    CHECK(second->shard->snapshots()->durable() == Numbers{0, 1, 2});
  }
  REQUIRE(second->shard->restore(2));
  for (uint32_t key = 0; key < 2; key++) {
    CHECK(counters_of(*second, key).updates == 8);
    CHECK(counters_of(*second, key).samples > 0);
  }
  CHECK(state_of(*second, 1) == state);
  std::vector<std::vector<float>> answers;
  Training(*second, policy, 8).run_to(14, &answers);
  CHECK(answers == wanted);
  CHECK(state_of(*second, 1) == state_of(undisturbed, 1));
  CHECK(state_of(*second, 0) == state_of(undisturbed, 0));
}

TEST_CASE("a snapshot has the bits of its version although updates continue", "[kvstore][snapshots]") {
  const bool deterministic = GENERATE(false, true);
  const test::TempDir dir;
  std::atomic<uint64_t> version = 0;
  test::ClusterOptions options{.workers = 2,
                               .servers = 1,
                               .parameters = {{4}, {600000}},
                               .statistics = {{3}},
                               .rule = test::plain_rule(-0.1),
                               .deterministic = deterministic,
                               .shard_threads = 2};
  options.rule.optimizer.momentum = 0.9;
  constexpr uint64_t kEvery = 3, kSteps = 8;
  const auto train = [&](test::Cluster& cluster, uint64_t steps, std::vector<std::vector<float>>* weights) {
    cluster.on_each([&](uint32_t w) -> Result<> {
      for (uint64_t step = 0; step < steps; step++) {
        RandomStream random(5, Use::kTest, step, w);
        for (size_t key = 0; key < 2; key++) {
          for (float& value : cluster.arrays(w).gradient(key)) value = static_cast<float>(random.uniform(-1, 1));
        }
        DT_TRY_VOID(cluster.step(w, step, 1));
        if (w != 0 || weights == nullptr) continue;
        version = step + 1;
        weights->emplace_back(cluster.arrays(0).weight(1).begin(), cluster.arrays(0).weight(1).end());
      }
      return {};
    });
  };
  // Each file is written after the weights have changed twice.
  options.snapshots = {.every = kEvery, .directory = dir.path(), .job = "job"};
  options.snapshots.on_write = [&](uint64_t number) { test::await([&] { return version >= number * kEvery + 2; }); };
  test::Cluster cluster(options);
  cluster.initialize();
  std::vector<std::vector<float>> weights;
  train(cluster, kSteps, &weights);
  await_durable(cluster.shard(0), {0, 1, 2});

  options.snapshots = {};
  for (const uint64_t number : {1, 2}) {
    INFO("snapshot " << number);
    test::Cluster reference(options);
    reference.initialize();
    train(reference, number * kEvery, nullptr);
    const TrainingState state = reference.store(0).state().value();
    const auto parts = cluster.shard(0).snapshots()->read(number);
    REQUIRE(parts);
    REQUIRE(parts->size() == 4);
    for (const SnapshotPart& part : *parts) {
      CHECK(part.counters.updates == number * kEvery);
      CHECK(part.counters.samples == 2 * number * kEvery);
      if (part.id.key == 0) continue;
      const auto is_part = [&](const Slice& s) { return SliceId{s.key, s.part} == part.id; };
      const uint64_t begin = std::ranges::find_if(cluster.placement(), is_part)->begin;
      const auto own = [&](std::span<const float> all) { return all.subspan(begin, part.weights.values.size()); };
      CHECK(std::ranges::equal(part.weights.values, own(weights[number * kEvery - 1])));
      CHECK(std::ranges::equal(part.states[0].values, own(state.slots[1].values)));
    }
  }
}

TEST_CASE("answers wait while the disk is slow, and the wait has a name", "[kvstore][snapshots]") {
  const test::TempDir dir;
  Gate gate;
  ShardOptions options = options_in(dir, sync::bsp(2), 2);
  options.snapshots.on_write = gate.hook();
  options.threads = GENERATE(0, 2);
  const auto shard = Shard::create(options).value();
  const Gate::OpenAtEnd open{gate};
  const auto mail = std::make_shared<Mailbox>();
  const std::vector<float> ones(4, 1);
  const std::span<const std::byte> payload[] = {std::as_bytes(std::span(ones))};
  for (uint32_t key = 0; key < 2; key++) {
    const auto peer = std::make_shared<test::Peer>();
    const ControlRequest assign{.id = {key, 0}, .rank = 0, .incarnation = 100, .request = 1, .what = AssignValues{}};
    shard->on_message(peer, assign, payload);
    CHECK(peer->take().status == Status::kOk);
  }
  gate.await_reached(1);  // snapshot 0, which is not written
  const auto step = [&](uint64_t number) {
    for (uint32_t key = 0; key < 2; key++) {
      for (uint32_t rank = 0; rank < 2; rank++) {
        Header push = test::Conversation::header(Kind::kPush, rank, key, number, 1);
        push.element_count = 4;
        shard->on_message(mail, push, payload);
      }
    }
  };
  step(0);
  CHECK(mail->size() == 4);
  CHECK(shard->overdue(0).empty());
  step(1);  // makes version 2, which may be handed out only when snapshot 0 is written
  CHECK(mail->size() == 4);
  CHECK(shard->counts().updates == 4);
  const std::vector<std::string> lines = shard->overdue(0);
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[1], Catch::Matches("worker 1 waits [0-9.]+ m?s for 2 slices \\(first: key 0 slice 0 version 2\\) "
                                      "until snapshot 0 is written"));
  CHECK(shard->overdue(30).empty());
  shard->leave(1);
  CHECK(shard->overdue(0).size() == 1);
  gate.let_pass(1);
  test::await([&] { return mail->size() == 8; });
  CHECK(shard->overdue(0).empty());
  for (size_t i = 4; i < 8; i++) {
    CHECK(mail->at(i).first.step == 2);
    CHECK(mail->at(i).second.size() == 4);
  }
  CHECK(shard->snapshots()->durable() == Numbers{0});
}

TEST_CASE("a full disk does not stop the training", "[kvstore][snapshots]") {
  const test::TempDir dir;
  std::atomic<bool> is_full = false;
  std::mutex mutex;
  Numbers failed;
  std::string why;
  ShardOptions options = options_in(dir, sync::bsp(1), 2);
  options.snapshots.fault = [&](const char*) { return is_full ? ENOSPC : 0; };
  options.snapshots.on_failure = [&](uint64_t number, const Error& error) {
    const std::lock_guard lock(mutex);
    why = error.message;
    failed.push_back(number);
  };
  REQUIRE(options.snapshots.log.add_file(dir.path("log")));
  test::Conversation talk(options);
  assign_all(talk);
  Training training(talk, options.policy, 0);
  const auto has_failed = [&](size_t count) {
    const std::lock_guard lock(mutex);
    return failed.size() == count;
  };
  training.run_to(1);
  await_durable(*talk.shard, {0});
  is_full = true;
  training.run_to(3);
  test::await([&] { return has_failed(1); });
  training.run_to(5);
  test::await([&] { return has_failed(2); });
  CHECK(failed == Numbers{1, 2});
  CHECK_THAT(why, Contains("No space left"));
  CHECK(talk.shard->snapshots()->durable() == Numbers{0});
  is_full = false;
  training.run_to(7);
  await_durable(*talk.shard, {0, 3});
  CHECK(talk.shard->counts().updates == 14);
  options.snapshots.log.flush();
  const std::string log = read_file(dir.path("log")).value();
  CHECK_THAT(log, Contains("snapshot 1 of server 0 could not be written: cannot write"));
  CHECK_THAT(log, Contains("training continues"));
  CHECK_THAT(log, !Contains("snapshot 2"));  // only the first failure is logged
  CHECK_THAT(log, Contains("snapshot 3 is written again"));
}

TEST_CASE("the newest three snapshots are kept, and the caller is told of each change", "[kvstore][snapshots]") {
  const test::TempDir dir;
  std::mutex mutex;
  std::vector<Numbers> told;
  ShardOptions options = options_in(dir, sync::bsp(2), 1);
  options.snapshots.on_durable = [&](Numbers durable) {
    const std::lock_guard lock(mutex);
    told.push_back(std::move(durable));
  };
  {
    test::Conversation talk(options);
    assign_all(talk);
    Training training(talk, options.policy, 0);
    for (uint64_t version = 0; version < 6; version++) {
      training.run_to(version);
      const uint64_t oldest = version < 3 ? 0 : version - 2;
      Numbers wanted;
      for (uint64_t number = oldest; number <= version; number++) wanted.push_back(number);
      await_durable(*talk.shard, wanted);
      test::await([&] {
        const std::lock_guard lock(mutex);
        return told.size() == version + 1 && told.back() == wanted;
      });
    }
    test::await([&] { return names_in(dir).size() == 3; });
  }
  const std::vector<std::string> names = names_in(dir);
  REQUIRE(names.size() == 3);
  CHECK_THAT(names[0], Catch::Matches("snapshot-[0-9a-f]{8}-0-3-0"));
  CHECK_THAT(names[2], Catch::Matches("snapshot-[0-9a-f]{8}-0-5-0"));
}

TEST_CASE("only undamaged snapshots of the same job and server are used", "[kvstore][snapshots]") {
  const test::TempDir dir;
  ShardOptions options = options_in(dir, sync::bsp(2), 1);
  {
    test::Conversation talk(options);
    assign_all(talk);
    Training(talk, options.policy, 0).run_to(2);
    await_durable(*talk.shard, {0, 1, 2});
  }
  const std::string first = names_in(dir).at(0), last = names_in(dir).at(2);
  const std::string content = read_file(dir.path(last)).value();
  write_text(dir.path(last), content.substr(0, content.size() - 9));
  write_text(dir.path(first + ".tmp-0123456789abcdef"), "unfinished");
  const std::string foreign = "snapshot-00000000-0-1-0", foreign_temporary = "snapshot-00000000-0-1-0.tmp-0";
  write_text(dir.path(foreign), content);
  write_text(dir.path(foreign_temporary), "");
  write_text(dir.path("snapshot-00000000-1-1-0"), "");  // of another server of another job
  write_text(dir.path("snapshot-00000000-0-99999999999999999999-0"), "");
  write_text(dir.path("notes"), "");
  REQUIRE(options.snapshots.log.add_file(dir.path("log")));
  options.snapshots.life = 1;
  {
    const auto shard = Shard::create(options).value();
    CHECK(shard->snapshots()->durable() == Numbers{0, 1});
    CHECK(shard->restore(2).error().code == Code::kNotFound);
    CHECK(shard->restore(1));
  }
  options.snapshots.log.flush();
  const std::string log = read_file(dir.path("log")).value();
  CHECK_THAT(log,
             Contains(last.substr(0, last.size() - 1) + "1: its checksum is wrong, so the file is cut or damaged"));
  CHECK_THAT(log, Contains(foreign + ": the snapshot is of another job; it is not used"));
  CHECK(std::ranges::count(log, '\n') == 2);
  CHECK_FALSE(std::filesystem::exists(dir.path(first + ".tmp-0123456789abcdef")));
  CHECK(std::filesystem::exists(dir.path(foreign)));
  CHECK(std::filesystem::exists(dir.path(foreign_temporary)));

  options.snapshots.job = "another job";
  CHECK(Shard::create(options).value()->snapshots()->durable().empty());
  options.snapshots.job = "job";
  options.server = 1;
  options.placement.push_back({0, 1, 4, 4, 1});
  CHECK(Shard::create(options).value()->snapshots()->durable().empty());
}

TEST_CASE("a server that was suspended does not touch the snapshots of the one in its place", "[kvstore][snapshots]") {
  const test::TempDir dir;
  Gate gate;
  ShardOptions options = options_in(dir, sync::bsp(2), 1);
  options.snapshots.on_write = gate.hook();
  test::Conversation suspended(options);
  const Gate::OpenAtEnd open{gate};
  assign_all(suspended);
  Training training(suspended, options.policy, 0);
  gate.let_pass(3);
  training.run_to(2);
  await_durable(*suspended.shard, {0, 1, 2});
  training.run_ahead_to(3);
  gate.await_reached(4);  // it is suspended while it writes snapshot 3

  options.snapshots.on_write = nullptr;
  options.snapshots.life = 1;
  const auto second = Shard::create(options).value();
  CHECK(second->snapshots()->durable() == Numbers{0, 1, 2});
  gate.open();
  await_durable(*suspended.shard, {1, 2, 3});
  test::await([&] { return names_in(dir).size() == 4; });
  REQUIRE(second->restore(0));
  options.snapshots.life = 2;
  const auto third = Shard::create(options).value();
  CHECK(third->snapshots()->durable() == Numbers{0});
  CHECK(names_in(dir).size() == 1);
  options.snapshots.life = 0;  // the job starts again from the beginning
  CHECK(Shard::create(options).value()->snapshots()->durable().empty());
  CHECK(names_in(dir).empty());
}

TEST_CASE("a return to a snapshot answers nobody and forgets what was under way", "[kvstore][snapshots]") {
  const test::TempDir dir;
  Gate gate;
  ShardOptions options = options_in(dir, sync::bsp(3), 2);
  options.snapshots.on_write = gate.hook();
  test::Conversation talk(options);
  const Gate::OpenAtEnd open{gate};
  assign_all(talk);
  gate.let_pass(1);
  await_durable(*talk.shard, {0});
  talk.shard->leave(2);
  Training training(talk, sync::bsp(2), 0);
  training.run_ahead_to(3);
  gate.await_reached(2);  // snapshot 1 is not written, so the answers of version 4 wait
  training.run_ahead_to(4);
  CHECK(talk.shard->overdue(0).size() == 2);
  talk.pull(1, 2, 0);  // the statistic, which has no value
  CHECK(talk.peers[1]->inbox.empty());
  gate.let_pass(1);
  await_durable(*talk.shard, {0, 1});
  gate.await_reached(3);
  for (const auto& peer : talk.peers) peer->inbox.clear();
  talk.push(0, 0, 4, {1, 1, 1, 1});  // an open round with a waiting worker
  talk.push(0, 1, 4, {1, 1, 1, 1});
  CHECK(talk.shard->counts().parked == 3);

  Result<> restored;
  std::thread restoring([&] { restored = talk.shard->restore(1); });
  gate.open();  // for snapshot 2, which is abandoned
  restoring.join();
  REQUIRE(restored);
  CHECK(talk.shard->snapshots()->durable() == Numbers{0, 1});
  CHECK(names_in(dir).size() == 2);
  CHECK(talk.shard->counts().parked == 0);
  CHECK(talk.shard->overdue(0).empty());
  // The same requests as before, which are no repetitions now. Worker 2 is still absent.
  std::vector<std::vector<float>> answers;
  Training(talk, sync::bsp(2), 2).run_to(3, &answers);
  CHECK(answers.size() == 4);
  for (const auto& peer : talk.peers) CHECK(peer->inbox.empty());
}

TEST_CASE("answers that wait for the disk are not sent after a return to a snapshot", "[kvstore][snapshots]") {
  const test::TempDir dir;
  Gate gate;
  ShardOptions options = options_in(dir, sync::bsp(2), 2);
  options.snapshots.on_write = gate.hook();
  test::Conversation talk(options);
  const Gate::OpenAtEnd open{gate};
  assign_all(talk);
  gate.let_pass(1);
  await_durable(*talk.shard, {0});
  Training(talk, options.policy, 0).run_ahead_to(4);
  REQUIRE(talk.shard->overdue(0).size() == 2);
  Result<> restored;
  std::thread restoring([&] { restored = talk.shard->restore(0); });
  test::await([&] { return talk.shard->overdue(0).empty(); });
  gate.open();
  restoring.join();
  REQUIRE(restored);
  std::vector<std::vector<float>> answers;
  Training(talk, options.policy, 0).run_to(1, &answers);
  CHECK(answers.size() == 4);
  CHECK(talk.shard->snapshots()->durable() == Numbers{0});
}

TEST_CASE("after a restore, any worker may assign the statistics of a new server", "[kvstore][snapshots]") {
  const test::TempDir dir;
  ShardOptions options = options_in(dir, sync::bsp(2), 1);
  test::Conversation first(options);
  assign_all(first);
  await_durable(*first.shard, {0});
  options.snapshots.life = 1;
  test::Conversation second(options);
  second.control(1, 2, 1, AssignValues{}, {1, 2, 3, 4});
  CHECK(second.status_of(1) == Status::kRejected);
  REQUIRE(second.shard->restore(0));
  second.pull(0, 2, 3);
  CHECK(second.peers[0]->inbox.empty());
  second.control(1, 2, 2, Regroup{{0, 0}});
  CHECK(second.status_of(1) == Status::kUnknownKey);
  second.control(1, 2, 3, AssignValues{{.updates = 3}}, {1, 2, 3, 4});
  CHECK(second.status_of(1) == Status::kOk);
  CHECK(second.peers[0]->take().values == std::vector<float>{1, 2, 3, 4});
  for (uint32_t rank = 0; rank < 2; rank++) second.push(rank, 2, 3, {2, 2, 2, 2});
  for (uint32_t rank = 0; rank < 2; rank++) {
    CHECK(second.peers[rank]->take().values == std::vector<float>{2, 2, 2, 2});
  }
  // A server that has values keeps them, and their round begins again.
  second.push(0, 2, 4, {5, 5, 5, 5});
  REQUIRE(second.shard->restore(0));
  second.pull(1, 2, 4);
  CHECK(second.peers[1]->take().header.step == 4);
  for (uint32_t rank = 0; rank < 2; rank++) second.push(rank, 2, 4, {7, 7, 7, 7});
  CHECK(second.peers[1]->take().values == std::vector<float>{7, 7, 7, 7});
}

TEST_CASE("values that a worker assigns take the place of later snapshots", "[kvstore][snapshots]") {
  const test::TempDir dir;
  const ShardOptions options = options_in(dir, sync::bsp(2), 4);
  test::Conversation talk(options);
  assign_all(talk);
  Training(talk, options.policy, 0).run_to(10);
  await_durable(*talk.shard, {0, 1, 2});
  for (uint32_t key = 0; key < 2; key++) {
    talk.control(0, key, 1'000'000, AssignValues{{.updates = 4}}, {9, 9, 9, 9});
    CHECK(talk.status_of(0) == Status::kOk);
  }
  await_durable(*talk.shard, {0, 1});
  test::await([&] { return names_in(dir).size() == 2; });
  const auto parts = talk.shard->snapshots()->read(1);
  REQUIRE(parts);
  for (const SnapshotPart& part : *parts) CHECK(part.weights.values[0] == 9);
}

TEST_CASE("what a snapshot has of the learning rate and of the groups is restored", "[kvstore][snapshots]") {
  const test::TempDir dir;
  ShardOptions options = options_in(dir, sync::gsp({0, 0, 1}), 4);
  test::Conversation talk(options);
  assign_all(talk);
  for (uint32_t key = 0; key < 2; key++) {
    talk.control(0, key, 2, Regroup{{0, 1, 1}});
    CHECK(talk.status_of(0) == Status::kOk);
    talk.control(0, key, 3, SetRate{{.factor = 0.5, .from_samples = 1}});
    CHECK(talk.status_of(0) == Status::kOk);
    talk.control(0, key, 4, AssignValues{{.updates = 4, .rate_factor = 0.25}}, {0, 0, 0, 0});
    CHECK(talk.status_of(0) == Status::kOk);
    talk.control(0, key, 5, SetRate{{.factor = 0.125, .from_samples = 13}});
    CHECK(talk.status_of(0) == Status::kOk);
  }
  await_durable(*talk.shard, {0, 1});
  Training training(talk, sync::gsp({0, 1, 1}), 4);
  training.run_to(8);
  await_durable(*talk.shard, {0, 1, 2});
  options.snapshots.life = 1;
  test::Conversation other(options);
  REQUIRE(other.shard->restore(2));
  CHECK(counters_of(other, 0).updates == 8);
  std::vector<std::vector<float>> wanted, answers;
  training.run_to(11, &wanted);  // the second change of the rate takes effect in update 10
  Training(other, sync::gsp({0, 1, 1}), 8).run_to(11, &answers);
  CHECK(answers == wanted);
}

// Key 0 is on the server that was lost, key 1 on one that was not, with another version; here both are on the same.
TEST_CASE("after a server was replaced, all slices continue alike", "[kvstore][snapshots]") {
  const test::TempDir dir;
  ShardOptions options = options_in(dir, sync::ssp(2, 3), 4);
  {
    test::Conversation first(options);
    assign_all(first);
    Training(first, options.policy, 0).run_to(8);
    await_durable(*first.shard, {0, 1, 2});
  }
  options.snapshots.life = 1;
  test::Conversation talk(options);
  const Regroup::Alignment alignment{.counters = {.samples = 100, .updates = 12, .rate_factor = 0.5}, .leads = {0, 2}};
  REQUIRE(talk.shard->restore(2));
  const std::vector<float> state = state_of(talk, 0);
  for (uint32_t key = 0; key < 2; key++) {
    talk.control(1, key, 3, Regroup{{0, 1}, alignment});
    CHECK(talk.status_of(1) == Status::kOk);
    const Counters counters = counters_of(talk, key);
    CHECK(counters.updates == 12);
    CHECK(counters.samples == 100);
  }
  CHECK(state_of(talk, 0) == state);
  await_durable(*talk.shard, {0, 1, 2, 3});  // of version 12, which the slices have now
  talk.pull(0, 0, 0);
  CHECK(talk.peers[0]->take().header.step == 12);
  talk.pull(1, 0, 0);
  CHECK(talk.peers[1]->take().header.step == 14);
  talk.push(1, 0, 14, {1, 1, 1, 1});
  CHECK(talk.peers[1]->take().header.step == 15);
  talk.push(1, 0, 15, {1, 1, 1, 1});  // three steps ahead of the other one
  CHECK(talk.peers[1]->inbox.empty());
  talk.push(0, 0, 12, {1, 1, 1, 1});
  CHECK(talk.peers[1]->take().header.step == 16);
}

TEST_CASE("slices that were not restored are not aligned", "[kvstore][snapshots]") {
  const test::TempDir dir;
  const ShardOptions options = options_in(dir, sync::asp(2), 4);
  test::Conversation talk(options);
  assign_all(talk);
  const Regroup::Alignment good{.counters = {.updates = 12}, .leads = {0, 0}};
  talk.control(0, 0, 3, Regroup{{0, 1}, good});
  CHECK(talk.status_of(0) == Status::kRejected);
  REQUIRE(talk.shard->begin_anew());
  uint64_t request = 4;
  for (Regroup::Alignment bad : {good, good, good, good}) {
    if (request == 4) bad.leads = {0};
    if (request == 5) bad.leads = {0, UINT64_MAX};
    if (request == 6) bad.counters.updates = UINT64_MAX - 1;
    if (request == 7) bad.counters.rate_factor = -1;
    talk.control(0, 0, request++, Regroup{{0, 1}, bad});
    CHECK(talk.status_of(0) == Status::kRejected);
  }
  talk.control(0, 0, request, Regroup{{0, 1}, good});
  CHECK(talk.status_of(0) == Status::kOk);
}

TEST_CASE("snapshots are refused where they would be useless", "[kvstore][snapshots]") {
  const test::TempDir dir;
  ShardOptions options = options_in(dir, sync::bsp(1), 1);
  options.sums_only = true;
  CHECK_THAT(Shard::create(options).error().message, Contains("workers update the weights"));
  options.sums_only = false;
  write_text(dir.path("file"), "");
  options.snapshots.directory = dir.path("file");
  CHECK(Shard::create(options).error().code == Code::kUsage);
  options.snapshots = {};
  const auto without = Shard::create(options).value();
  CHECK(without->snapshots() == nullptr);
  CHECK(without->restore(0).error().code == Code::kUsage);
  // A server without parameters has nothing to restore.
  options.snapshots = {.every = 1, .directory = dir.path(), .job = "job"};
  options.server = 1;
  const auto empty = Shard::create(options).value();
  CHECK(empty->snapshots() == nullptr);
  CHECK(empty->restore(5));
}

}  // namespace dtrain::kvstore
