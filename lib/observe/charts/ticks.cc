#include "observe/charts/ticks.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace dtrain::observe {
namespace {

struct Suffix {
  double factor;
  const char* text;
};
constexpr std::array<Suffix, 4> kSuffixes = {{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};

// The suffix for numbers up to `largest`. Numbers below 10,000 are written out.
Suffix suffix_for(double largest) {
  if (largest >= 1e16) return {1, ""};
  for (const Suffix& suffix : kSuffixes) {
    if (largest >= suffix.factor && largest >= 1e4) return suffix;
  }
  return {1, ""};
}

// The smallest of 1, 2, 5 times a power of ten that is at least `rough`.
double round_step(double rough) {
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// A label that is precise enough to distinguish ticks that are `step` apart.
std::string label_of(double value, double step, double largest) {
  if (value == 0) return "0";
  if (largest < 1e-4 || largest >= 1e16) return fmt::format("{:.3g}", value);
  const Suffix suffix = suffix_for(largest);
  const double places = -std::floor(std::log10(step / suffix.factor) + 1e-9);
  const int decimals = static_cast<int>(std::clamp(places, 0.0, 9.0));
  return fmt::format("{:.{}f}{}", value / suffix.factor, decimals, suffix.text);
}

Ticks linear(double low, double high, int count, bool widen) {
  const double step = round_step((high - low) / std::max(count, 1));
  Ticks all{low, high, {}};
  if (widen) {
    all.low = std::floor(low / step + 1e-9) * step;
    all.high = std::ceil(high / step - 1e-9) * step;
  }
  const double largest = std::max(std::abs(all.low), std::abs(all.high));
  const double first = std::ceil(all.low / step - 1e-9);
  for (int i = 0; i < 100; i++) {
    const double value = (first + i) * step;
    if (value > all.high + step * 1e-9) break;
    all.ticks.push_back({value, label_of(std::abs(value) < step * 1e-9 ? 0 : value, step, largest)});
  }
  return all;
}

Ticks logarithmic(double low, double high, int count, bool widen) {
  const double decades = std::log10(high) - std::log10(low);
  if (decades < 1) {  // for such a range, round numbers are more useful than a single power of ten
    Ticks few = linear(low, high, count, false);
    std::erase_if(few.ticks, [](const Tick& tick) { return tick.value <= 0; });
    return few;
  }
  const int every = std::max(1, static_cast<int>(std::ceil(decades / std::max(count, 1))));
  Ticks all{low, high, {}};
  const auto first = static_cast<int>(widen ? std::floor(std::log10(low) + 1e-9) : std::ceil(std::log10(low) - 1e-9));
  const auto last = static_cast<int>(widen ? std::ceil(std::log10(high) - 1e-9) : std::floor(std::log10(high) + 1e-9));
  if (widen) all.low = std::pow(10, first), all.high = std::pow(10, last);
  for (int power = first; power <= last; power += every) {
    all.ticks.push_back({std::pow(10, power), short_number(std::pow(10, power))});
  }
  return all;
}

}  // namespace

Ticks ticks_of(double low, double high, int count, Scale scale, bool widen) {
  if (scale == Scale::kLog) {
    if (!(high > low * (1 + 1e-9))) low /= 2, high *= 2;
    return logarithmic(low, high, count, widen);
  }
  if (!(high - low > 1e-9 * std::max(std::abs(low), std::abs(high)))) {
    const double around = low == 0 ? 1 : std::abs(low) / 2;
    low -= around, high += around;
  }
  return linear(low, high, count, widen);
}

std::string short_number(double value) {
  if (value == 0 || !std::isfinite(value)) return fmt::format("{:g}", value);
  const double size = std::abs(value);
  const Suffix suffix = suffix_for(size);
  const double scaled = value / suffix.factor;
  return fmt::format("{:.{}g}{}", scaled, std::abs(scaled) >= 1000 ? 4 : 3, suffix.text);
}

}  // namespace dtrain::observe
