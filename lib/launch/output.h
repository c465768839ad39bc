// What a started process prints.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::launch {

// Cuts a stream of bytes into lines. A line that is longer than `kLineMax` comes in pieces.
class LineSplitter {
 public:
  static constexpr size_t kLineMax = 64 << 10;
  using Sink = std::function<void(const std::string& line)>;

  void add(std::string_view bytes, const Sink& sink);
  void finish(const Sink& sink);  // the stream has ended: what is left is a line too

 private:
  std::string rest_;
};

// Keeps the first error that a process reports (base/error.h: "error [...] ..." and its lines "  while ..."), or else
// the last lines that it printed: it died without a word of its own.
class FirstError {
 public:
  void line(const std::string& line);
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  std::vector<std::string> error_;
  bool open_ = false;  // the next "  while" line belongs to it
  std::deque<std::string> last_;
};

}  // namespace dtrain::launch
