#include "train/regroup.h"

#include <memory>
#include <thread>

#include "fakes.h"
#include "members.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;
using dtrain::test::must;

namespace {

using Groups = std::vector<sync::Group>;

// Records what it is told.
class RecordedGroups final : public kvstore::GroupedStore {
 public:
  Result<uint64_t> regroup(std::span<const uint32_t> group_of) override {
    groups.emplace_back(group_of.begin(), group_of.end());
    return 7 * groups.size();
  }
  void set_next_step(uint64_t step) override { steps.push_back(step); }

  std::vector<Groups> groups;
  std::vector<uint64_t> steps;
};

// The workers of one job, each in a thread while they regroup.
class Workers {
 public:
  explicit Workers(const Groups& group_of, bool is_bounded = false)
      : stores(group_of.size()), meetings_(static_cast<uint32_t>(group_of.size())) {
    const sync::Policy policy = sync::gsp(group_of, is_bounded ? std::optional<sync::Step>(1) : std::nullopt);
    for (uint32_t rank = 0; rank < group_of.size(); rank++) {
      members.push_back(std::make_unique<Member>(meetings_, rank));
      regroupers.emplace_back(RegroupSpec{.every = 2, .policy = policy}, &stores[rank], *members[rank], Log::silent());
    }
  }
  // Returns whether there are new groups; all workers must agree.
  bool run(const std::vector<double>& speeds) {
    std::vector<Result<bool>> outcomes(speeds.size(), false);
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < speeds.size(); rank++) {
      threads.emplace_back([&, rank] { outcomes[rank] = regroupers[rank].run(speeds[rank]); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Result<bool>& outcome : outcomes) CHECK(must(outcome) == must(outcomes[0]));
    return must(outcomes[0]);
  }
  [[nodiscard]] std::vector<int64_t> group_sizes() const {
    std::vector<int64_t> sizes;
    for (const Regrouper& regrouper : regroupers) sizes.push_back(regrouper.members());
    return sizes;
  }

  std::vector<RecordedGroups> stores;
  std::vector<std::unique_ptr<Member>> members;
  std::vector<Regrouper> regroupers;

 private:
  Meetings meetings_;
};

}  // namespace

TEST_CASE("workers of similar speed become a group, and every worker is told", "[train]") {
  Workers workers({0, 0, 1, 1});
  CHECK(workers.group_sizes() == std::vector<int64_t>{2, 2, 2, 2});
  REQUIRE(workers.run({30, 31, 10, 30.5}));
  CHECK(workers.stores[0].groups == std::vector<Groups>{{0, 0, 1, 0}});
  CHECK(workers.group_sizes() == std::vector<int64_t>{3, 3, 1, 3});
  for (uint32_t rank = 0; rank < 4; rank++) {
    if (rank > 0) CHECK(workers.stores[rank].groups.empty());
    CHECK(workers.stores[rank].steps == std::vector<uint64_t>{7});
    CHECK(workers.members[rank]->stop_set_of == Groups{0, 0, 1, 0});
  }
  REQUIRE(workers.run({30, 31, 29.5, 30.5}));
  CHECK(workers.stores[0].groups.back() == Groups{0, 0, 0, 0});
  CHECK(workers.stores[3].steps == std::vector<uint64_t>{7, 14});
}

TEST_CASE("groups stay if regrouping would only renumber them, or if a worker has no speed", "[train]") {
  Workers workers({1, 1, 0});
  CHECK_FALSE(workers.run({30, 31, 10}));
  CHECK_FALSE(workers.run({10, 0, 10}));
  CHECK(workers.stores[0].groups.empty());
  CHECK(workers.stores[2].steps.empty());
  CHECK(workers.members[0]->stop_set_of.empty());
}

TEST_CASE("all workers stop together if the lead between groups is bounded", "[train]") {
  Workers workers({0, 0, 0}, true);
  REQUIRE(workers.run({30, 31, 10}));
  CHECK(workers.stores[0].groups == std::vector<Groups>{{0, 0, 1}});
  CHECK(workers.members[0]->stop_set_of.empty());
}

TEST_CASE("regrouping is due every N epochs", "[train]") {
  const Workers workers({0, 0});
  CHECK_FALSE(workers.regroupers[0].is_due(1));
  CHECK(workers.regroupers[0].is_due(2));
  CHECK(workers.regroupers[0].is_due(4));
}
