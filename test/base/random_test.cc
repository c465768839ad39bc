#include "base/random.h"

#include <algorithm>
#include <set>

#include "support/catch.h"

using namespace dtrain;

TEST_CASE("a stream depends on every part of its key", "[base]") {
  const auto first = [](uint64_t seed, Use use, uint64_t a, uint64_t b) {
    return RandomStream(seed, use, a, b).next();
  };
  const std::set<uint64_t> values = {first(1, Use::kInit, 0, 0), first(2, Use::kInit, 0, 0),
                                     first(1, Use::kShuffle, 0, 0), first(1, Use::kInit, 1, 0),
                                     first(1, Use::kInit, 0, 1)};
  CHECK(values.size() == 5);
  CHECK(first(1, Use::kInit, 2, 3) == first(1, Use::kInit, 2, 3));
}

TEST_CASE("draws have the moments of their distributions", "[base]") {
  RandomStream random(7, Use::kTest);
  double sum = 0, square = 0, uniform = 0;
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; i++) {
    const double x = random.normal();
    sum += x;
    square += x * x;
    uniform += random.uniform();
  }
  CHECK(sum / kDraws == Approx(0).margin(0.01));
  CHECK(square / kDraws == Approx(1).margin(0.02));
  CHECK(uniform / kDraws == Approx(0.5).margin(0.005));
}

TEST_CASE("a permutation has every number once", "[base]") {
  RandomStream random(7, Use::kTest);
  const std::vector<int64_t> order = permutation(1000, random);
  CHECK(std::set<int64_t>(order.begin(), order.end()).size() == 1000);
  CHECK(*std::min_element(order.begin(), order.end()) == 0);
  CHECK(order != permutation(1000, random));
}
