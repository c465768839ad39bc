// Builds the error messages of lib/comm that list ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace dtrain::comm {

// For example "device 2 has" or "devices 1, 2 have". Requires at least one rank.
std::string ranks_have(std::string_view noun, std::span<const uint32_t> ranks);
// Code::kPeerLost with a message such as "device 2 has not reached all_reduce within 300 s".
Error timeout_error(std::string_view noun, std::span<const uint32_t> ranks, std::string_view operation, double limit_s);

}  // namespace dtrain::comm
