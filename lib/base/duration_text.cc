#include "base/duration_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dtrain {

std::string duration_text(std::chrono::duration<double> duration) {
  const double seconds = duration.count();
  // From 9.95 on, for example, a number with one decimal would be rounded to 10.0, which has one digit more.
  if (seconds >= 9.95) return fmt::format("{:.0f} s", seconds);
  if (seconds >= 0.9995) return fmt::format("{:.1f} s", seconds);
  if (seconds >= 0.00995) return fmt::format("{:.0f} ms", seconds * 1e3);
  return fmt::format("{:.1f} ms", seconds * 1e3);
}

std::string long_duration_text(std::chrono::duration<double> duration) {
  constexpr int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  const auto all = static_cast<int64_t>(std::llround(std::clamp(duration.count(), 0.0, 1e9)));
  if (all < kMinute) return fmt::format("{}s", all);
  if (all < kHour) return fmt::format("{}m{:02}s", all / kMinute, all % kMinute);
  if (all < kDay) return fmt::format("{}h{:02}m", all / kHour, all % kHour / kMinute);
  return fmt::format("{}d{:02}h", all / kDay, all % kDay / kHour);
}

}  // namespace dtrain
