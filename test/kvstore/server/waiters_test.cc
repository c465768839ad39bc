#include "kvstore/server/waiters.h"

#include <algorithm>

#include "base/random.h"
#include "kvstore/conversation.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::kvstore;
using namespace dtrain::test;

namespace {

struct PlainWait {
  uint32_t rank = 0;
  uint64_t wanted = 0;
  uint64_t number = 0;
  bool operator==(const PlainWait&) const = default;
};
// A list in order of arrival, in which every call searches all of it.
struct PlainWaits {
  std::vector<PlainWait> list;

  std::optional<PlainWait> take(uint32_t rank, uint64_t wanted) {
    for (const PlainWait& wait : std::vector(list)) {
      if (wait.rank != rank || wait.wanted != wanted) continue;
      std::erase(list, wait);
      return wait;
    }
    return std::nullopt;
  }
  std::optional<PlainWait> take_due(uint32_t rank, uint64_t step) {
    for (uint64_t wanted = step + 1; wanted-- > 0;) {
      if (const std::optional<PlainWait> found = take(rank, wanted)) return found;
    }
    return std::nullopt;
  }
  void add(const PlainWait& wait) {
    (void)take(wait.rank, wait.wanted);
    list.push_back(wait);
  }
};

PlainWait plain(const Waiters::Waiter& waiter) {
  return {waiter.request.header.rank, waiter.wanted, waiter.request.header.request};
}
std::optional<PlainWait> plain(const std::optional<Waiters::Waiter>& waiter) {
  return waiter ? std::optional(plain(*waiter)) : std::nullopt;
}
std::vector<PlainWait> plain(const Waiters::InOrder& waiters) {
  std::vector<PlainWait> list;
  for (const auto& [arrival, waiter] : waiters) list.push_back(plain(waiter));
  return list;
}
std::vector<PlainWait> plain(const std::vector<Waiters::Waiter>& waiters) {
  std::vector<PlainWait> list;
  list.reserve(waiters.size());
  for (const Waiters::Waiter& waiter : waiters) list.push_back(plain(waiter));
  return list;
}

}  // namespace

// After each of many random calls, both hold the same requests in the same order. Few ranks and steps make repeats,
// several requests of a rank and misses frequent; the counts show that no case was left out.
TEST_CASE("waiting requests are found and ordered as in a plain list", "[kvstore]") {
  int taken = 0, taken_due = 0, missed = 0, all_taken = 0, forgotten = 0;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    INFO("seed " << seed);
    RandomStream random(seed, Use::kTest);
    Waiters waiters;
    PlainWaits expected;
    for (uint64_t number = 1; number <= 100; number++) {
      const auto rank = static_cast<uint32_t>(random.below(4));
      const auto step = static_cast<uint64_t>(random.below(4));
      const int64_t call = random.below(20);
      const size_t before = expected.list.size();
      if (call < 10) {
        Header header = Conversation::header(Kind::kPull, rank, 0, step);
        header.request = number;
        waiters.add({nullptr, header}, step, Status::kOk);
        expected.add({rank, step, number});
      } else if (call < 14) {
        REQUIRE(plain(waiters.take(rank, step)) == expected.take(rank, step));
        (expected.list.size() < before ? taken : missed)++;
      } else if (call < 18) {
        REQUIRE(plain(waiters.take_due(rank, step)) == expected.take_due(rank, step));
        (expected.list.size() < before ? taken_due : missed)++;
      } else if (call == 18) {
        waiters.forget(rank);
        std::erase_if(expected.list, [&](const PlainWait& wait) { return wait.rank == rank; });
        forgotten += expected.list.size() < before ? 1 : 0;
      } else {
        REQUIRE(plain(waiters.take_all()) == expected.list);
        expected.list.clear();
        all_taken += before > 1 ? 1 : 0;
      }
      REQUIRE(plain(waiters.all()) == expected.list);
      REQUIRE(waiters.empty() == expected.list.empty());
    }
  }
  for (const int count : {taken, taken_due, missed, all_taken, forgotten}) CHECK(count > 100);
}
