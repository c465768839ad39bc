#include "base/console.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace dtrain {
namespace {

constexpr auto kPlainInterval = std::chrono::seconds(10);
constexpr int kColumnsUnknown = 80;

// Writes to stderr. What cannot be written, because nobody reads stderr or it is a file on a full disk, is left out, and
// said when writing is possible again: it never ends the program.
class StderrWriter {
 public:
  void operator()(std::string_view bytes) {
    if (lost_ > 0) {
      const std::string note = fmt::format("({} lines could not be written here: {})\n", lost_, std::strerror(error_));
      if (write(note) > 0) {
        lost_ += count_lines(bytes);
        return;
      }
      lost_ = 0;
    }
    lost_ = count_lines(bytes.substr(bytes.size() - write(bytes)));
  }

 private:
  // Returns how many bytes at the end could not be written.
  size_t write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t put = ::write(STDERR_FILENO, bytes.data(), bytes.size());
      if (put >= 0) {
        bytes.remove_prefix(static_cast<size_t>(put));
      } else if (errno == EAGAIN) {  // another program has made the terminal or pipe non-blocking
        pollfd watched{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
        ::poll(&watched, 1, -1);
      } else if (errno != EINTR) {
        error_ = errno;
        return bytes.size();
      }
    }
    return 0;
  }
  static uint64_t count_lines(std::string_view bytes) {
    return static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
  }

  uint64_t lost_ = 0;
  int error_ = 0;  // of the last write that failed
};

int terminal_columns(int fd) {
  if (::isatty(fd) == 0) return 0;
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kColumnsUnknown;
}

}  // namespace

Console Console::to_stderr(std::string_view terminal) {
  const bool can_redraw = !terminal.empty() && terminal != "dumb";
  return {StderrWriter(), [can_redraw] { return can_redraw ? terminal_columns(STDERR_FILENO) : 0; }};
}

void Console::line(std::string_view text) {
  write_(fmt::format("{}{}\n", wipe(), text));
  drawn_ = 0;
  if (columns_() > 0) draw();
}

void Console::live(std::string_view text, Time now) {
  live_ = text;
  if (columns_() > 0) return draw();
  unprinted_ = !live_.empty() && printed_ && now - *printed_ < kPlainInterval;
  if (unprinted_ || live_.empty()) return;
  printed_ = now;
  write_(live_ + "\n");
}

void Console::resized() {
  if (columns_() > 0) draw();
}

void Console::finish() {
  if (drawn_ > 0 || unprinted_) write_(wipe() + live_ + "\n");
  live_.clear();
  drawn_ = 0;
  unprinted_ = false;
}

// Moves to the first column of the live line and erases to the end of the screen. If the window has become narrower,
// the terminal has wrapped the line, and it begins some rows higher.
std::string Console::wipe() const {
  if (drawn_ == 0) return "";
  const int columns = columns_();
  const size_t rows_above = columns > 0 ? (drawn_ - 1) / static_cast<size_t>(columns) : 0;
  return rows_above > 0 ? fmt::format("\r\x1b[{}A\x1b[J", rows_above) : "\r\x1b[K";
}

// One column stays free, because a line that is exactly as wide as the terminal would wrap.
void Console::draw() {
  if (live_.empty()) return;
  const std::string shown = live_.substr(0, static_cast<size_t>(std::max(1, columns_() - 1)));
  write_((drawn_ > 0 ? wipe() : "\r\x1b[K") + shown);
  drawn_ = shown.size();
}

}  // namespace dtrain
