// Durations as text, for messages.
#pragma once

#include <chrono>
#include <string>

namespace dtrain {

// Formats a duration in a suitable unit: "0.3 ms", "50 ms", "1.5 s", "31 s".
std::string duration_text(std::chrono::duration<double> duration);

// A long duration in two units: "42s", "1m20s", "2h01m", "3d04h".
std::string long_duration_text(std::chrono::duration<double> duration);

}  // namespace dtrain
