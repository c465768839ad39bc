#include "net/refusal_log.h"

#include <fmt/core.h>

namespace dtrain::net {

std::optional<uint64_t> OncePerSecond::admit() {
  const MutexLock lock(mutex_);
  const auto now = now_();
  if (admitted_ && now - *admitted_ < std::chrono::seconds(1)) {
    left_out_++;
    return std::nullopt;
  }
  admitted_ = now;
  return std::exchange(left_out_, 0);
}

void RefusalLog::warn(const std::string& text) {
  const std::optional<uint64_t> left_out = limit_.admit();
  if (!left_out) return;
  log_.warn("{}{}", text,
            *left_out == 0 ? "" : fmt::format(" ({} more calls were refused since the last line)", *left_out));
}

}  // namespace dtrain::net
