// Whether a network has learned anything yet, judged by its training loss and accuracy.
#pragma once

#include <cstdint>
#include <string>

namespace dtrain::train {

// Of the last window of an epoch, or of the whole epoch if it has no window.
struct Lesson {
  double loss = 0;      // cross-entropy
  double accuracy = 0;  // 0 to 1; NaN: not measured
};

// The loss is no better than that of a uniform guess, `chance` (ln of the number of classes), and the accuracy not much
// better. Never within the first 100 steps or 30 s of training: a network needs some to leave chance.
bool is_at_chance(const Lesson& lesson, double chance, int64_t steps, double seconds);

struct Rates {
  double in_use = 0;
  double usual = 0;  // the network's default
};
// The warning about an epoch, with a rate to try instead: a fifth of the one in use, and at most the usual one.
std::string at_chance_text(int64_t epoch, double loss, double chance, const Rates& rates);

}  // namespace dtrain::train
