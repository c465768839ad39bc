#include "train/learning.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace dtrain::train {
namespace {

// A network that predicts the class frequencies regardless of the image reaches a loss slightly below that of a uniform
// guess. A network with a higher loss may still have learned, with confident wrong answers; then its accuracy shows it.
constexpr double kLoss = 0.99;
constexpr double kAccuracy = 1.5;
constexpr int64_t kSteps = 100;
constexpr double kSeconds = 30;

}  // namespace

bool is_at_chance(const Lesson& lesson, double chance, int64_t steps, double seconds) {
  if (steps < kSteps || seconds < kSeconds) return false;
  const bool guesses_right = lesson.accuracy > kAccuracy * std::exp(-chance);
  return lesson.loss >= kLoss * chance && !guesses_right;
}

std::string at_chance_text(int64_t epoch, double loss, double chance, const Rates& rates) {
  return fmt::format(
      "the training loss at the end of epoch {} is {:.4f}, no better than guessing ({:.4f}): the network does not "
      "learn at the learning rate {:g}; try a lower learning rate (--lr {:g}), another --initializer or another --seed",
      epoch + 1, loss, chance, rates.in_use, std::min(rates.in_use / 5, rates.usual));
}

}  // namespace dtrain::train
