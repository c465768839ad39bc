// poll(2) with a deadline instead of a timeout in milliseconds. (The file is not named poll.h, because Meson puts this
// directory on the include path, where it would hide the system's header.)
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>

namespace dtrain {

// Like poll(2). If `until` is nullopt, waits without limit; if it is in the past, returns immediately.
inline int poll_until(std::span<pollfd> watched, std::optional<std::chrono::steady_clock::time_point> until) {
  int timeout_ms = -1;
  if (until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - std::chrono::steady_clock::now());
    timeout_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
  }
  return ::poll(watched.data(), watched.size(), timeout_ms);
}

}  // namespace dtrain
