#include "base/line_reader.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace dtrain {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;

}  // namespace

Result<LineReader> LineReader::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.open()) {
    return fail(errno == ENOENT ? Code::kNotFound : Code::kData, "{}: {}", path,
                errno == ENOENT ? "no such file" : std::strerror(errno));
  }
  return LineReader(path, std::move(fd));
}

Result<> LineReader::fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t before = buffer_.size();
  buffer_.resize(before + kReadBytes);
  ssize_t got = 0;
  do {
    got = ::read(fd_.get(), buffer_.data() + before, kReadBytes);
  } while (got < 0 && errno == EINTR);
  buffer_.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) return fail(Code::kData, "{}: {}", path_, std::strerror(errno));
  at_end_ = got == 0;
  return {};
}

Result<std::optional<std::string_view>> LineReader::next() {
  was_cut_ = false;
  size_t searched = begin_, end = buffer_.find('\n', searched);
  while (end == std::string::npos && !at_end_) {
    searched = buffer_.size() - begin_;
    DT_TRY_VOID(fill());
    end = buffer_.find('\n', searched);
    if (end == std::string::npos && buffer_.size() > 2 * kLineBytesMax) {
      buffer_.resize(kLineBytesMax);  // the rest of the line is read and dropped
      was_cut_ = true;
    }
  }
  has_newline_ = end != std::string::npos;
  if (!has_newline_) end = buffer_.size();
  if (begin_ == end && !has_newline_) return std::nullopt;
  number_++;
  std::string_view line(buffer_.data() + begin_, end - begin_);
  if (line.size() > kLineBytesMax) line = line.substr(0, kLineBytesMax), was_cut_ = true;
  if (was_cut_ && cut_++ == 0) first_cut_ = number_;
  begin_ = end + (has_newline_ ? 1 : 0);
  return line;
}

std::string LineReader::cut_lines_text() const {
  if (cut_ == 0) return {};
  return fmt::format("{}: {} {} longer than {} MiB and {} cut; the first is line {}", path_, cut_,
                     cut_ == 1 ? "line is" : "lines are", kLineBytesMax >> 20, cut_ == 1 ? "was" : "were", first_cut_);
}

}  // namespace dtrain
