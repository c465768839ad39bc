// Writes to a descriptor until everything is written.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace dtrain {

// Returns false if a call fails; errno is then set. A disk that fills up may have accepted a part of `bytes` before.
inline bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace dtrain
