#include "proc/lines.h"

#include <array>
#include <cerrno>

namespace dtrain::proc {
namespace {
constexpr size_t kFirstLines = 3;
}  // namespace

void LineSplitter::add(std::string_view bytes, const Sink& sink) {
  for (const char c : bytes) {
    const bool is_end = c == '\n' || (c == '\r' && ends_ == LineEnds::kReturnToo);
    if (is_end || rest_.size() == line_max_) {
      sink(rest_);
      rest_.clear();
    }
    if (!is_end) rest_ += c;
  }
}

void LineSplitter::finish(const Sink& sink) {
  if (!rest_.empty()) sink(rest_);
  rest_.clear();
}

void read_lines(UniqueFd& fd, LineSplitter& splitter, int reads_max, const LineSplitter::Sink& sink) {
  std::array<char, 1 << 16> buffer;
  for (int i = 0; fd.open() && i < reads_max; i++) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got > 0) {
      splitter.add({buffer.data(), static_cast<size_t>(got)}, sink);
      continue;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;  // no more data for now
    splitter.finish(sink);
    fd.close();
  }
}

std::string first_words(const std::vector<std::string>& lines) {
  std::string words;
  size_t count = 0;
  for (const std::string& line : lines) {
    if (line.find_first_not_of("-=*# \t\r") == std::string::npos) continue;
    if (++count > kFirstLines) break;
    words += (words.empty() ? "" : "; ") + line.substr(0, line.find_last_not_of('\r') + 1);
  }
  return words;
}

}  // namespace dtrain::proc
