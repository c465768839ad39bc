// Workers whose group loses a member in the middle of a step, or takes in new ones (DeviceStore::renew). Each worker
// has one device; the groups are in shared memory.
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>

#include "comm/shared_memory.h"
#include "kvstore/plain_training.h"
#include "kvstore/worker/device_store.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

namespace {

const std::vector<size_t> kBucketBegins = {0, 2};
const std::vector<Shape> kOneStatistic = {{10}};
constexpr uint32_t kSamples = 2;  // of a worker's step

using Group = std::vector<std::unique_ptr<comm::Collective>>;

// Where the workers of a group meet: whoever comes last makes the group.
class Meeting {
 public:
  Result<Group> join(uint32_t rank, const std::vector<uint32_t>& members) {
    std::unique_lock lock(mutex_);
    if (++came_ == members.size()) {
      came_ = 0;
      if (members.size() > 1) {
        auto ends = comm::make_shared_memory_group(static_cast<uint32_t>(members.size()), {.wait_limit_s = 60});
        for (size_t i = 0; i < members.size(); i++) ends_[members[i]] = std::move(ends[i]);
      }
      generation_++;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [this, before = generation_] { return generation_ > before; });
    }
    Group own;
    if (members.size() > 1) own.push_back(std::move(ends_.at(rank)));
    return own;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t came_ = 0, generation_ = 0;
  std::map<uint32_t, std::unique_ptr<comm::Collective>> ends_;
};

class Worker {
 public:
  Worker(Meeting& meeting, uint32_t rank, const std::vector<uint32_t>& members, bool joins)
      : rank_(rank), arrays_(kPlainShapes, kOneStatistic) {
    DeviceStoreOptions options{
        .update_at = UpdateAt::kReplicas, .rule = momentum_rule(), .bucket_begin = kBucketBegins};
    options.make_group = [&meeting, rank](const std::vector<uint32_t>& now) { return meeting.join(rank, now); };
    options.members = members;
    options.joins = joins;
    Group group(1);
    if (!joins) group = meeting.join(rank, members).value();
    store_ = DeviceStore::create(std::move(options), std::move(group), nullptr, waits_).value();
    REQUIRE(store_->initialize({&arrays_.view(), 1}, {}).has_value());
  }
  DeviceStore& store() { return *store_; }
  WorkerGroup& group() { return *store_->worker_group(); }
  Arrays& arrays() { return arrays_; }
  [[nodiscard]] uint32_t rank() const { return rank_; }

  void compute(uint64_t step) {
    clear_gradients(arrays_);
    for (uint32_t i = 0; i < kSamples; i++) add_gradient(arrays_, static_cast<int64_t>(step * 100 + rank_ * 10 + i));
  }
  Result<> ready(size_t bucket, uint64_t step) { return store_->gradient_ready(bucket, step, kSamples); }
  Result<> complete(size_t bucket) { return store_->wait_for_weights(bucket); }

 private:
  const uint32_t rank_;
  Waits waits_;
  Arrays arrays_;
  std::unique_ptr<DeviceStore> store_;
};

// The workers of a job. They are created and renewed on threads of their own, because they wait for each other.
class Job {
 public:
  std::vector<Worker*> start(const std::vector<uint32_t>& ranks) { return add(ranks, ranks, false); }
  Worker* join(uint32_t rank) { return add({rank}, {}, true).front(); }
  static void renew(const std::vector<Worker*>& workers) {
    std::vector<uint32_t> members;
    for (const Worker* worker : workers) members.push_back(worker->rank());
    std::vector<std::future<Result<>>> renewed;
    for (Worker* worker : workers) {
      renewed.push_back(std::async(std::launch::async, [=] { return worker->group().renew(members); }));
    }
    for (auto& one : renewed) REQUIRE(one.get().has_value());
  }
  static void step(const std::vector<Worker*>& workers, uint64_t step) {
    for (Worker* worker : workers) worker->compute(step);
    for (size_t b = kBucketBegins.size(); b-- > 0;) {
      for (Worker* worker : workers) REQUIRE(worker->ready(b, step).has_value());
    }
    for (Worker* worker : workers) {
      for (size_t b = 0; b < kBucketBegins.size(); b++) REQUIRE(worker->complete(b).has_value());
    }
  }

 private:
  std::vector<Worker*> add(const std::vector<uint32_t>& ranks, const std::vector<uint32_t>& members, bool joins) {
    std::vector<std::future<std::unique_ptr<Worker>>> made;
    for (const uint32_t rank : ranks) {
      made.push_back(std::async(std::launch::async, [this, rank, members, joins] {
        return std::make_unique<Worker>(meeting_, rank, members, joins);
      }));
    }
    std::vector<Worker*> added;
    for (auto& one : made) {
      workers_.push_back(one.get());
      added.push_back(workers_.back().get());
    }
    return added;
  }

  Meeting meeting_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

// A process that trains alone, with the gradients of some workers.
class Reference {
 public:
  Reference() : arrays_(kPlainShapes, kOneStatistic) {
    store_ = lone_store({.rule = momentum_rule(), .bucket_begin = kBucketBegins}, waits_);
    REQUIRE(store_->initialize({&arrays_.view(), 1}, {}).has_value());
  }
  // Adds the workers' gradients in their order.
  void take(const std::vector<Worker*>& workers) {
    for (size_t k = 0; k < kPlainShapes.size(); k++) {
      const std::span<float> sum = arrays_.gradient(k);
      std::ranges::copy(workers.front()->arrays().gradient(k), sum.begin());
      for (size_t w = 1; w < workers.size(); w++) {
        const std::span<const float> more = workers[w]->arrays().gradient(k);
        for (size_t i = 0; i < sum.size(); i++) sum[i] += more[i];
      }
    }
  }
  void update(size_t bucket, uint64_t step, size_t workers) {
    REQUIRE(store_->gradient_ready(bucket, step, static_cast<uint32_t>(workers * kSamples)).has_value());
  }
  Arrays& arrays() { return arrays_; }

 private:
  Waits waits_;
  Arrays arrays_;
  std::unique_ptr<Store> store_;
};

}  // namespace

TEST_CASE("the step in which a worker is lost is completed without it, and no bucket is updated twice",
          "[kvstore][devices]") {
  Job job;
  const std::vector<Worker*> all = job.start({0, 1, 2}), left = {all[0], all[1]};
  Reference alone;
  for (uint64_t step = 0; step < 3; step++) {
    for (Worker* worker : all) worker->compute(step);
    alone.take(all);
    for (size_t b = kBucketBegins.size(); b-- > 0;) alone.update(b, step, 3);
    Job::step(all, step);
  }
  // The first bucket of step 3 arrives everywhere. Worker 2 does not send the other one.
  for (Worker* worker : all) worker->compute(3);
  alone.take(all);
  alone.update(1, 3, 3);
  for (Worker* worker : all) REQUIRE(worker->ready(1, 3).has_value());
  for (Worker* worker : all) REQUIRE(worker->complete(1).has_value());
  for (Worker* worker : left) REQUIRE(worker->ready(0, 3).has_value());
  for (Worker* worker : left) worker->group().break_up({Code::kPeerLost, "worker 2 no longer takes part", {}});
  for (Worker* worker : left) {
    CHECK(worker->group().is_broken());
    CHECK(worker->complete(0).error().message == "worker 2 no longer takes part");
    CHECK(worker->complete(1).has_value());
    CHECK_FALSE(worker->ready(1, 4).has_value());
  }
  Job::renew(left);
  for (Worker* worker : left) {
    CHECK_FALSE(worker->group().is_broken());
    CHECK(worker->group().members() == std::vector<uint32_t>{0, 1});
    CHECK(worker->store().next_step().value() == 3);
    CHECK(worker->group().has_part_of_step());
  }
  // They make step 3 again.
  for (Worker* worker : left) worker->compute(3);
  alone.take(left);
  alone.update(0, 3, 2);
  Job::step(left, 3);
  CHECK(weights_of(left[0]->arrays()) == weights_of(alone.arrays()));
  CHECK(weights_of(left[1]->arrays()) == weights_of(alone.arrays()));
  CHECK(left[0]->store().next_step().value() == 4);
  CHECK(left[0]->store().samples_applied().value() == 3 * 6 + 4);  // of bucket 0
  Job::step(left, 4);
  CHECK(weights_of(left[0]->arrays()) == weights_of(left[1]->arrays()));
}

TEST_CASE("workers that join, or are behind, get the newest weights, state and counters", "[kvstore][devices]") {
  Job job;
  const std::vector<Worker*> all = job.start({0, 2});
  Job::step(all, 0);
  Job::renew({all[1]});  // worker 2 continues alone
  for (uint64_t step = 1; step < 4; step++) Job::step({all[1]}, step);
  fill(all[0]->arrays().statistic(0), 5);
  fill(all[1]->arrays().statistic(0), 7);
  Worker* const joins = job.join(1);
  const std::vector<Worker*> now = {all[0], joins, all[1]};
  Job::renew(now);
  const TrainingState newest = all[1]->store().state().value();
  CHECK(newest.updates == 4);
  for (Worker* worker : now) {
    INFO("worker " << worker->rank());
    CHECK(worker->store().next_step().value() == 4);
    CHECK_FALSE(worker->group().has_part_of_step());
    CHECK(weights_of(worker->arrays()) == weights_of(all[1]->arrays()));
    const TrainingState own = worker->store().state().value();
    CHECK(own.samples == newest.samples);
    REQUIRE(own.slots.size() == newest.slots.size());
    for (size_t i = 0; i < own.slots.size(); i++) CHECK(own.slots[i].values == newest.slots[i].values);
  }
  // Old workers keep their own statistics; a new one gets those of the lowest rank that has some.
  CHECK(all[1]->arrays().statistic(0)[0] == 7);
  CHECK(joins->arrays().statistic(0)[0] == all[0]->arrays().statistic(0)[0]);
  CHECK(all[0]->arrays().statistic(0)[0] == 5);
  Job::step(now, 4);
  CHECK(weights_of(joins->arrays()) == weights_of(all[0]->arrays()));
}

TEST_CASE("a run goes back to the weights, statistics and state of one worker, as if the steps had not been made",
          "[kvstore][devices]") {
  Job job;
  const std::vector<Worker*> all = job.start({0, 2, 5});
  for (uint64_t step = 0; step < 2; step++) Job::step(all, step);
  fill(all[1]->arrays().statistic(0), 7);
  TrainingState earlier = all[1]->store().state().value();
  const std::vector<float> weights = weights_of(all[1]->arrays());
  for (uint64_t step = 2; step < 5; step++) Job::step(all, step);
  Worker* const joins = job.join(1);
  const std::vector<Worker*> now = {all[0], joins, all[1], all[2]};
  Job::renew(now);
  size_t at = 0;
  for (size_t k = 0; k < kPlainShapes.size(); k++) {
    for (float& weight : all[1]->arrays().weight(k)) weight = weights[at++];
  }
  fill(all[1]->arrays().statistic(0), 7);

  const auto go_back = [&](Worker* worker) {
    TrainingState state{.slots = {}, .samples = earlier.samples, .updates = earlier.updates};
    if (worker == all[1]) state = earlier;
    return worker->group().go_back({&worker->arrays().view(), 1}, state, 2);
  };
  const bool is_torn = GENERATE(false, true);
  std::vector<std::future<Result<>>> back;
  for (Worker* worker : now) {
    if (is_torn && worker == all[2]) continue;
    back.push_back(std::async(std::launch::async, [&, worker] { return go_back(worker); }));
  }
  // Worker 5 is lost before it has taken part. The others get what worker 2 still has.
  std::vector<Worker*> left = now;
  if (is_torn) {
    left.pop_back();
    for (Worker* worker : left) worker->group().break_up({Code::kPeerLost, "worker 5 no longer takes part", {}});
  }
  for (auto& one : back) CHECK(one.get().has_value() == !is_torn);
  if (is_torn) Job::renew(left);
  for (Worker* worker : left) {
    INFO("worker " << worker->rank());
    CHECK(worker->store().next_step().value() == 2);
    CHECK(weights_of(worker->arrays()) == weights);
    CHECK(worker->arrays().statistic(0)[0] == 7);
    const TrainingState own = worker->store().state().value();
    CHECK(own.samples == earlier.samples);
    for (size_t i = 0; i < own.slots.size(); i++) CHECK(own.slots[i].values == earlier.slots[i].values);
  }
  if (is_torn) return;
  for (uint64_t step = 2; step < 5; step++) Job::step(now, step);
  CHECK(weights_of(joins->arrays()) == weights_of(all[2]->arrays()));
}

TEST_CASE("a store that is canceled is not mended by a new group", "[kvstore][devices]") {
  Job job;
  const std::vector<Worker*> all = job.start({0, 1});
  all[0]->store().cancel({Code::kSchedulerLost, "the scheduler was lost", {}});
  all[0]->group().break_up({Code::kPeerLost, "worker 1 no longer takes part", {}});
  CHECK_FALSE(all[0]->group().is_broken());
  CHECK(all[0]->ready(1, 0).error().message == "the scheduler was lost");
  CHECK(all[0]->group().renew({0}).error().message == "the scheduler was lost");
}
