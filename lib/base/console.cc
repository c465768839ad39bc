#include "base/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

namespace dtrain {
namespace {

constexpr auto kPlainInterval = std::chrono::seconds(10);
constexpr std::string_view kWipe = "\r\x1b[K";  // to the first column, erase to the end of the line
constexpr int kColumnsUnknown = 80;

void write_stderr(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(STDERR_FILENO, bytes.data(), bytes.size());
    if (put < 0 && errno != EINTR) return;  // nobody reads: the job goes on, its logs are in the run directory
    if (put > 0) bytes.remove_prefix(static_cast<size_t>(put));
  }
}

int terminal_columns(int fd) {
  if (::isatty(fd) == 0) return 0;
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kColumnsUnknown;
}

}  // namespace

Console Console::to_stderr() {
  return {write_stderr, terminal_columns(STDERR_FILENO)};
}

void Console::line(std::string_view text) {
  std::string bytes;
  if (columns_ > 0 && !live_.empty()) bytes = kWipe;
  bytes += text;
  bytes += '\n';
  write_(bytes);
  draw();
}

void Console::live(std::string_view text, Time now) {
  live_ = text;
  if (columns_ > 0) {
    draw();
  } else if (!printed_ || now - *printed_ >= kPlainInterval) {
    printed_ = now;
    write_(live_ + "\n");
  }
}

void Console::finish() {
  if (columns_ > 0 && !live_.empty()) write_("\n");
  live_.clear();
}

// One column stays free: a line as wide as the terminal would wrap, and then a wipe would leave its first part.
void Console::draw() const {
  if (columns_ == 0 || live_.empty()) return;
  write_(std::string(kWipe) + live_.substr(0, static_cast<size_t>(columns_ - 1)));
}

}  // namespace dtrain
