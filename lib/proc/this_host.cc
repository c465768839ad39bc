#include "proc/this_host.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

namespace dtrain::proc {

Result<std::string> this_executable() {
  std::array<char, PATH_MAX> path;
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length < 0) return fail(Code::kStartup, "cannot read /proc/self/exe: {}", std::strerror(errno));
  return std::string(path.data(), static_cast<size_t>(length));
}

std::string this_host() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  const std::string host = name.data();
  return host.substr(0, host.find('.'));
}

}  // namespace dtrain::proc
