#include "observe/log_tail.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/unique_fd.h"

namespace dtrain::observe {
namespace {

constexpr int64_t kBytesMax = 64 << 10;

// "worker 0" for "worker-0.log"; "scheduler" for "scheduler-0.log", because a job has only one scheduler.
std::string process_of(const std::string& stem) {
  const size_t dash = stem.rfind('-');
  if (dash == std::string::npos) return stem;
  const std::string role = stem.substr(0, dash);
  return role == "scheduler" ? role : role + " " + stem.substr(dash + 1);
}

}  // namespace

std::vector<LogLine> LogTail::take() {
  std::vector<LogLine> lines;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    const std::filesystem::path& path = at->path();
    if (path.extension() == ".log") read(path, process_of(path.stem()), files_[path.filename()], lines);
  }
  return lines;
}

void LogTail::read(const std::string& path, const std::string& process, File& file, std::vector<LogLine>& lines) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!fd.open() || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (status.st_size < file.offset) file = {};
  if (status.st_size - file.offset > kBytesMax) file = {.offset = status.st_size - kBytesMax, .rest = ""};
  std::string text(static_cast<size_t>(status.st_size - file.offset), '\0');
  const ssize_t got = ::pread(fd.get(), text.data(), text.size(), file.offset);
  if (got <= 0) return;
  text.resize(static_cast<size_t>(got));
  file.offset += got;
  file.rest += text;
  size_t begin = 0;
  for (size_t end = file.rest.find('\n'); end != std::string::npos; end = file.rest.find('\n', begin)) {
    lines.push_back({process, file.rest.substr(begin, std::min(end - begin, kLogLineBytesMax))});
    begin = end + 1;
  }
  file.rest.erase(0, begin);
  if (file.rest.size() > static_cast<size_t>(kBytesMax)) file.rest.clear();
}

}  // namespace dtrain::observe
