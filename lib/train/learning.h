// Whether a network has learned anything yet, judged by its training loss and accuracy.
#pragma once

#include <cstdint>
#include <string>

namespace dtrain::train {

// The training metrics over the last window of an epoch (the batches between two log lines), or over the whole epoch if
// it is shorter than a window.
struct Lesson {
  double loss = 0;      // mean cross-entropy
  double accuracy = 0;  // 0 to 1; NaN: not measured
};

// Whether the loss is no better than that of a uniform guess, `chance` (ln of the number of classes), and the accuracy
// is hardly better. Always false within the first 100 steps or 30 s of training, because a network needs time to get
// better than chance.
bool is_at_chance(const Lesson& lesson, double chance, int64_t steps, double seconds);

struct Rates {
  double in_use = 0;
  double usual = 0;  // the network's default learning rate
};
// The warning that the network has learned nothing in this epoch. It suggests another rate: a fifth of the current one,
// but at most the usual one.
std::string at_chance_text(int64_t epoch, double loss, double chance, const Rates& rates);

}  // namespace dtrain::train
