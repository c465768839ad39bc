#include "base/duration_text.h"

#include <fmt/format.h>

namespace dtrain {

std::string duration_text(std::chrono::duration<double> duration) {
  const double seconds = duration.count();
  // At each limit the rounded number gains a digit.
  if (seconds >= 9.95) return fmt::format("{:.0f} s", seconds);
  if (seconds >= 0.9995) return fmt::format("{:.1f} s", seconds);
  if (seconds >= 0.00995) return fmt::format("{:.0f} ms", seconds * 1e3);
  return fmt::format("{:.1f} ms", seconds * 1e3);
}

}  // namespace dtrain
