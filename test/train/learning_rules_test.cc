#include <cmath>
#include <limits>

#include "support/catch.h"
#include "train/learning.h"

using namespace dtrain::train;

TEST_CASE("a network is at chance if its loss and its accuracy are those of a guess", "[train]") {
  const double chance = std::log(10);
  CHECK(is_at_chance({.loss = 2.302, .accuracy = 0.1}, chance, 100, 30));
  CHECK(is_at_chance({.loss = 2.9, .accuracy = 0.14}, chance, 5000, 3000));
  CHECK(is_at_chance({.loss = 2.302, .accuracy = std::numeric_limits<double>::quiet_NaN()}, chance, 100, 30));
  CHECK_FALSE(is_at_chance({.loss = 2.2, .accuracy = 0.1}, chance, 100, 30));
  CHECK_FALSE(is_at_chance({.loss = 2.9, .accuracy = 0.3}, chance, 100, 30));  // sure of wrong answers, but learns
  CHECK_FALSE(is_at_chance({.loss = 2.302, .accuracy = 0.1}, chance, 99, 3000));
  CHECK_FALSE(is_at_chance({.loss = 2.302, .accuracy = 0.1}, chance, 5000, 29));
  CHECK_FALSE(is_at_chance({.loss = 2.302, .accuracy = 0.1}, std::numeric_limits<double>::quiet_NaN(), 5000, 300));
}

TEST_CASE("the advised rate is lower than the one in use and at most the usual one", "[train]") {
  CHECK(
      at_chance_text(3, 2.31, std::log(10), {.in_use = 0.5, .usual = 0.05}) ==
      "the training loss at the end of epoch 4 is 2.3100, no better than guessing (2.3026): the network does not learn "
      "at the learning rate 0.5; try a lower learning rate (--lr 0.05), another --initializer or another --seed");
  CHECK_THAT(at_chance_text(3, 2.31, std::log(10), {.in_use = 0.05, .usual = 0.05}), Catch::Contains("(--lr 0.01)"));
}
