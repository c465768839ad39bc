#include "launch/line_log.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <cerrno>
#include <cstring>

namespace dtrain::launch {

Result<> LineLog::append(std::string_view line) {
  std::string bytes = has_part_line_ ? "\n" : "";
  if (missing_ > 0) bytes += fmt::format("({} lines are missing here, because they could not be written)\n", missing_);
  bytes += fmt::format("{}\n", line);
  if (write(bytes)) {
    missing_ = 0;
    has_part_line_ = false;
    return {};
  }
  const int error = errno;
  file_.close();  // opened again for the next line, because a user may have removed the file to make room
  if (missing_++ > 0) return {};
  return fail(Code::kData, "cannot write '{}': {}", path_, std::strerror(error));
}

bool LineLog::write(std::string_view bytes) {
  if (!file_.open()) file_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  while (file_.open() && !bytes.empty()) {
    const ssize_t put = ::write(file_.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
    has_part_line_ = true;
  }
  return file_.open();
}

}  // namespace dtrain::launch
