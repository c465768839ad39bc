// Processes the output of a started process.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace dtrain::proc {

// Where a line ends: tools that display their progress write the same line repeatedly, separated by carriage returns.
enum class LineEnds { kNewline, kReturnToo };

// Splits a stream of bytes into lines. A line longer than `line_max` is delivered in pieces.
class LineSplitter {
 public:
  static constexpr size_t kLineMax = 64 << 10;
  using Sink = std::function<void(const std::string& line)>;

  LineSplitter() = default;
  explicit LineSplitter(size_t line_max) : line_max_(line_max) {}
  explicit LineSplitter(LineEnds ends) : ends_(ends) {}
  void add(std::string_view bytes, const Sink& sink);
  void finish(const Sink& sink);  // must be called at the end of the stream: delivers the rest as a line

 private:
  size_t line_max_ = kLineMax;
  LineEnds ends_ = LineEnds::kNewline;
  std::string rest_;
};

// Reads from a nonblocking descriptor, with at most `reads_max` reads, and splits the data into lines. Closes the
// descriptor at the end of the stream, or if the connection was reset.
void read_lines(UniqueFd& fd, LineSplitter& splitter, int reads_max, const LineSplitter::Sink& sink);
// The largest number of reads in one turn. It is limited, so that a process that prints without end does not block the
// others.
inline constexpr int kReadsPerTurn = 16;

// The first of the lines that a tool has printed, joined by "; ". Tools usually print the cause first, and advice
// later. Lines without a word are left out.
std::string first_words(const std::vector<std::string>& lines);

}  // namespace dtrain::proc
