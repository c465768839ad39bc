#include "proc/this_host.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/host_limits.h"

namespace dtrain::proc {

Result<std::string> this_executable() {
  std::array<char, PATH_MAX> path;
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length < 0) return fail(Code::kStartup, "cannot read /proc/self/exe: {}", std::strerror(errno));
  return std::string(path.data(), static_cast<size_t>(length));
}

std::string this_host() {
  const std::string host = host_name();
  return host.substr(0, host.find('.'));
}

}  // namespace dtrain::proc
