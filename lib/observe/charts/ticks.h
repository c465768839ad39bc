// Chooses round numbers for axes.
#pragma once

#include <string>
#include <vector>

#include "observe/charts/chart.h"

namespace dtrain::observe {

struct Tick {
  double value = 0;
  std::string label;
};

struct Ticks {
  double low = 0, high = 1;  // ends of the axis; they are not always ticks
  std::vector<Tick> ticks;   // ascending, all between the ends
};

// Ticks for values from `low` to `high`, about `count` of them: multiples of 1, 2 or 5 times a power of ten; on a log
// scale, powers of ten, or fractions of them if the range is small. With `widen`, the ends of the axis are ticks too.
// If `low` equals `high`, they are moved apart. Both must be finite, and above 0 on a log scale.
Ticks ticks_of(double low, double high, int count, Scale scale, bool widen);

// A number for people: "1234", "12.3k", "0.00012", "1.5M".
std::string short_number(double value);

}  // namespace dtrain::observe
