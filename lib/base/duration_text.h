// How long something took, for messages.
#pragma once

#include <chrono>
#include <string>

namespace dtrain {

// In the unit that suits it, with two digits or more: "0.3 ms", "50 ms", "1.5 s", "31 s".
std::string duration_text(std::chrono::duration<double> duration);

}  // namespace dtrain
