#include "base/console.h"

#include <fmt/ranges.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/utf8.h"

namespace dtrain {
namespace {

constexpr auto kPlainInterval = std::chrono::seconds(10);
constexpr WindowSize kSizeUnknown{80, 24};
constexpr size_t kBarMax = 20, kBarMin = 5;  // width of a progress bar, in columns between its brackets

// Writes to stderr. If output cannot be written, because nobody reads stderr or it is a file on a full disk, it is
// dropped, and this is reported when writing is possible again. A failed write never ends the program.
class StderrWriter {
 public:
  void operator()(std::string_view bytes) {
    if (lost_ > 0) {
      const std::string note = fmt::format("({} lines are missing here, because they could not be written: {})\n",
                                           lost_, std::strerror(error_));
      if (write(note) > 0) {
        lost_ += count_lines(bytes);
        return;
      }
      lost_ = 0;
    }
    lost_ = count_lines(bytes.substr(bytes.size() - write(bytes)));
  }

 private:
  // Returns the number of bytes at the end that could not be written.
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
  int error_ = 0;  // errno of the last write that failed
};

WindowSize window_of(int fd) {
  if (::isatty(fd) == 0) return {};
  winsize size{};
  const bool known = ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
  return known ? WindowSize{size.ws_col, size.ws_row} : kSizeUnknown;
}

// A progress bar such as "[=====>    ] ".
std::string bar(double done, size_t columns) {
  const double share = std::clamp(done, 0.0, 1.0);
  const auto filled = static_cast<size_t>(share * static_cast<double>(columns));
  std::string inside(filled, '=');
  if (filled < columns) inside += '>' + std::string(columns - filled - 1, ' ');
  return "[" + inside + "] ";
}

// Breaks the text into lines of at most `columns` columns. It is broken only at kBetweenParts, so a part that is too
// wide stays whole.
std::vector<std::string> broken(std::string_view text, size_t columns) {
  std::vector<std::string> lines;
  while (columns_of(text) > columns) {
    const std::string_view fits = fitting(text, columns);
    // The line may end directly after `fits`, if a separator follows there.
    const size_t part = text.substr(0, fits.size() + kBetweenParts.size()).rfind(kBetweenParts);
    if (part == std::string_view::npos || part == 0) break;
    lines.emplace_back(text.substr(0, part));
    text.remove_prefix(part + kBetweenParts.size());
  }
  lines.emplace_back(text);
  return lines;
}

// Removes the parts for which there is no room.
std::string with_fewer_parts(std::string text, size_t columns) {
  while (columns_of(text) > columns) {
    const size_t last = text.rfind(kBetweenParts);
    if (last == std::string::npos || last == 0) break;
    const size_t before = text.rfind(kBetweenParts, last - 1);
    if (before == std::string::npos) {
      text.erase(last);
    } else {
      text.erase(before, last - before);
    }
  }
  return text;
}

// True if the quote at `at` begins or ends a quoted text; false for an apostrophe within or after a word.
bool turns_quote(std::string_view text, size_t at, bool is_quoted) {
  return text[at] == '\'' && (is_quoted || at == 0 || text[at - 1] == ' ' || text[at - 1] == '(');
}

// Where a line that begins at `begin` may end: at the last blank outside quotes before `columns` are full; or, after a
// longer word, at the first blank; or at the end of the text.
size_t end_of_line(std::string_view text, size_t begin, size_t columns) {
  if (columns_of(text.substr(begin)) <= columns) return text.size();
  bool is_quoted = false;
  size_t end = text.size();
  for (size_t i = begin; i < text.size(); i++) {
    if (turns_quote(text, i, is_quoted)) is_quoted = !is_quoted;
    if (text[i] != ' ' || is_quoted || i == begin) continue;
    const bool fits = columns_of(text.substr(begin, i - begin)) <= columns;
    if (fits || end == text.size()) end = i;
    if (!fits) break;
  }
  return end;
}

// Wraps a text at blanks outside quotes; quoted texts stay whole, because users copy commands and paths from them. All
// lines but the first are indented.
std::vector<std::string> wrapped(std::string_view text, size_t columns) {
  constexpr std::string_view kIndent = "  ";
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const std::string_view indent = lines.empty() ? "" : kIndent;
    const size_t end = end_of_line(text, begin, std::max(columns, indent.size() + 1) - indent.size());
    lines.push_back(fmt::format("{}{}", indent, text.substr(begin, end - begin)));
    begin = std::min(text.find_first_not_of(' ', end), text.size());
  }
  if (lines.empty()) lines.emplace_back();
  return lines;
}

}  // namespace

std::vector<std::string> lines_in_window(const Live& live, WindowSize window) {
  // One column is left free, because a terminal would wrap a line that is exactly as wide as the window.
  const auto columns = static_cast<size_t>(std::max(1, window.columns - 1));
  const auto rows = static_cast<size_t>(std::max(1, window.rows / 2));
  const size_t bar_columns = std::min(kBarMax, columns / 3);
  std::vector<std::string> lines =
      broken((live.done && bar_columns >= kBarMin ? bar(*live.done, bar_columns) : "") + live.text, columns);
  if (lines.size() > rows) lines.resize(rows);
  for (std::string& line : lines) line = fitting(line, columns);
  const size_t room = rows - lines.size();
  const size_t shown = live.details.size() <= room ? live.details.size() : room - std::min<size_t>(room, 1);
  for (size_t i = 0; i < shown; i++) lines.emplace_back(fitting(live.details[i], columns));
  if (shown < live.details.size() && room > 0) {
    lines.emplace_back(fitting(fmt::format("... and {} more", live.details.size() - shown), columns));
  }
  return lines;
}

std::vector<std::string> fitted(std::string_view text, Fit fit, WindowSize window) {
  if (window.columns <= 0 || fit == Fit::kAsIs) return {std::string(text)};
  const auto columns = static_cast<size_t>(window.columns);
  if (fit == Fit::kParts) return {with_fewer_parts(std::string(text), columns)};
  return wrapped(text, columns);
}

Console Console::to_stderr(std::string_view terminal) {
  const bool can_redraw = !terminal.empty() && terminal != "dumb";
  return {StderrWriter(), [can_redraw] { return can_redraw ? window_of(STDERR_FILENO) : WindowSize(); }};
}

bool Console::is_terminal() {
  return ::isatty(STDERR_FILENO) != 0;
}

void Console::line(std::string_view text, Fit fit) {
  write_(fmt::format("{}{}\n", wipe(), fmt::join(fitted(text, fit, window_()), "\n")));
  drawn_.clear();
  if (window_().columns > 0) draw();
}

void Console::live(Live live, Time now) {
  live_ = std::move(live);
  if (window_().columns > 0) return draw();
  const bool is_early = printed_ && now - *printed_ < kPlainInterval;
  unprinted_ = is_early && !live_.text.empty() && live_.text != printed_text_;
  if (is_early || live_.text.empty()) return;
  printed_ = now;
  printed_text_ = live_.text;
  write_(live_.text + "\n");
}

void Console::resized() {
  if (window_().columns > 0) draw();
}

void Console::finish() {
  if (!drawn_.empty() || unprinted_) {
    const WindowSize window = window_();
    const auto columns = static_cast<size_t>(std::max(1, window.columns - 1));
    const std::vector<std::string> lines =
        window.columns > 0 ? broken(live_.text, columns) : std::vector<std::string>{live_.text};
    write_(fmt::format("{}{}\n", wipe(), fmt::join(lines, "\n")));
  }
  live_ = {};
  drawn_.clear();
  unprinted_ = false;
}

// The text that moves to the first column of the block's first row and erases to the end of the screen. If the window
// has become narrower, the terminal has wrapped the lines, and the block begins some rows higher.
std::string Console::wipe() const {
  if (drawn_.empty()) return "";
  const auto columns = static_cast<size_t>(std::max(1, window_().columns));
  size_t rows = 0;
  for (const size_t width : drawn_) rows += std::max<size_t>(1, (width + columns - 1) / columns);
  return rows > 1 ? fmt::format("\r\x1b[{}A\x1b[J", rows - 1) : "\r\x1b[K";
}

void Console::draw() {
  if (live_.text.empty() && drawn_.empty()) return;
  std::string bytes = drawn_.empty() ? "\r\x1b[K" : wipe();
  drawn_.clear();
  if (!live_.text.empty()) {
    for (const std::string& line : lines_in_window(live_, window_())) {
      if (!drawn_.empty()) bytes += "\r\n";
      bytes += line;
      drawn_.push_back(columns_of(line));
    }
  }
  write_(bytes);
}

}  // namespace dtrain
