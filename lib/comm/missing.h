// How the errors of this directory name ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace dtrain::comm {

// "device 2 has", "devices 1, 2 have". At least one rank.
std::string ranks_have(std::string_view noun, std::span<const uint32_t> ranks);
// Code::kPeerLost, "device 2 has not reached all_reduce within 300 s".
Error timeout_error(std::string_view noun, std::span<const uint32_t> ranks, std::string_view operation, double limit_s);

}  // namespace dtrain::comm
