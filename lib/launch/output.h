// What a started process prints.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/unique_fd.h"

namespace dtrain::launch {

// Cuts a stream of bytes into lines. A line that is longer than `line_max` comes in pieces.
class LineSplitter {
 public:
  static constexpr size_t kLineMax = 64 << 10;
  using Sink = std::function<void(const std::string& line)>;

  LineSplitter() = default;
  explicit LineSplitter(size_t line_max) : line_max_(line_max) {}
  void add(std::string_view bytes, const Sink& sink);
  void finish(const Sink& sink);  // the stream has ended: what is left is a line too

 private:
  size_t line_max_ = kLineMax;
  std::string rest_;
};

// What has come from a stream that does not block, line by line, in `reads_max` reads at most. At its end it is closed.
void read_lines(UniqueFd& fd, LineSplitter& splitter, int reads_max, const LineSplitter::Sink& sink);
inline constexpr int kReadsPerTurn = 16;  // who prints without end does not starve the others

// Keeps the first error that a process reports (base/error.h: "error [...] ..." and its lines "  while ..."), and the
// last lines that it printed, for a process that ends without reporting one.
class FirstError {
 public:
  void line(const std::string& line);
  [[nodiscard]] const std::vector<std::string>& error() const { return error_; }  // empty: it reported none
  [[nodiscard]] std::vector<std::string> last_lines() const { return {last_.begin(), last_.end()}; }

 private:
  std::vector<std::string> error_;
  bool open_ = false;  // the next "  while" line belongs to it
  std::deque<std::string> last_;
};

}  // namespace dtrain::launch
