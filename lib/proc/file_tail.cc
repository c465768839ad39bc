#include "proc/file_tail.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <string_view>

#include "base/unique_fd.h"

namespace dtrain::proc {
namespace {

constexpr int kTailReads = 4;  // these reads return fewer bytes than a Screen keeps

}  // namespace

FileTail::Found FileTail::read(const LineSplitter::Sink& sink) {
  const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.open()) return Found::kNoFile;
  struct stat now {};
  if (::fstat(file.get(), &now) == 0 && now.st_size < offset_) offset_ = 0;
  std::array<char, 1 << 16> buffer;
  for (int i = 0; i < kTailReads; i++) {
    const ssize_t got = ::pread(file.get(), buffer.data(), buffer.size(), offset_);
    if (got <= 0) return Found::kAll;
    offset_ += got;
    lines_.add(std::string_view(buffer.data(), static_cast<size_t>(got)), sink);
  }
  return Found::kMore;
}

int64_t FileTail::size() const {
  struct stat now {};
  return ::stat(path_.c_str(), &now) == 0 ? now.st_size : 0;
}

}  // namespace dtrain::proc
