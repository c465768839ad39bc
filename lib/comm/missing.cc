#include "comm/missing.h"

#include <fmt/ranges.h>

namespace dtrain::comm {

std::string ranks_have(std::string_view noun, std::span<const uint32_t> ranks) {
  const bool is_one = ranks.size() == 1;
  return fmt::format("{}{} {} {}", noun, is_one ? "" : "s", fmt::join(ranks, ", "), is_one ? "has" : "have");
}

Error timeout_error(std::string_view noun, std::span<const uint32_t> ranks, std::string_view operation,
                    double limit_s) {
  return {
      Code::kPeerLost, fmt::format("{} not reached {} within {:g} s", ranks_have(noun, ranks), operation, limit_s), {}};
}

}  // namespace dtrain::comm
