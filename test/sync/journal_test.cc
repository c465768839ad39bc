#include "sync/journal.h"

#include "support/catch.h"

namespace dtrain::sync {
namespace {

using Texts = Journal<int>::Texts;

std::vector<int> all(Journal<int>& journal) {
  std::vector<int> taken;
  while (const std::optional<int> one = journal.take()) taken.push_back(*one);
  return taken;
}

}  // namespace

TEST_CASE("a journal holds back what a record explains until the record is durable", "[sync][membership]") {
  Journal<int> journal(Texts{{"view", "1"}});
  CHECK_FALSE(journal.add(Texts{{"view", "1"}}, {10}));  // nothing has changed
  CHECK(all(journal) == std::vector{10});

  const auto first = journal.add(Texts{{"view", "2"}, {"hold", "1"}}, {20, 21});
  REQUIRE(first);
  CHECK(first->changes == Texts{{"view", "2"}, {"hold", "1"}});
  CHECK(all(journal).empty());
  CHECK_FALSE(journal.add(std::nullopt, {22}));  // nothing new is decided, but the order stays
  const auto second = journal.add(Texts{{"view", "2"}, {"hold", "2"}}, {30});
  REQUIRE(second);
  CHECK(second->changes == Texts{{"hold", "2"}});  // only what has changed
  CHECK(all(journal).empty());

  journal.is_durable(first->number);
  CHECK(all(journal) == std::vector{20, 21, 22});
  journal.is_durable(second->number);
  journal.is_durable(first->number);  // comes too late
  CHECK(all(journal) == std::vector{30});
}

TEST_CASE("a journal writes a change although nothing is held back, and forgets no text", "[sync][membership]") {
  Journal<int> journal;
  const auto record = journal.add(Texts{{"view", "1"}}, {});
  REQUIRE(record);
  CHECK_FALSE(journal.add(Texts{}, {1}));  // a text that is missing stays as it was
  CHECK_FALSE(journal.add(Texts{{"view", "1"}}, {2}));
  journal.is_durable(record->number);
  CHECK(all(journal) == std::vector{1, 2});
}

}  // namespace dtrain::sync
