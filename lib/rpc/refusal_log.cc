#include "rpc/refusal_log.h"

#include <fmt/core.h>

namespace dtrain::rpc {

void RefusalLog::warn(const std::string& text) {
  uint64_t left_out = 0;
  {
    const MutexLock lock(mutex_);
    const auto now = now_();
    if (logged_ && now - *logged_ < std::chrono::seconds(1)) {
      left_out_++;
      return;
    }
    logged_ = now;
    left_out = std::exchange(left_out_, 0);
  }
  log_.warn("{}{}", text,
            left_out == 0 ? "" : fmt::format(" ({} more calls were refused since the last line)", left_out));
}

}  // namespace dtrain::rpc
