// The launcher's output, on its way to the process that writes it to the terminal (foreground.h). The job never waits
// for the terminal: what the reader does not accept is queued. If the queue is full, its oldest lines are dropped and
// replaced by a line that says how many were dropped.
#pragma once

#include <poll.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/console.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace dtrain::launch {

class Screen {
 public:
  static constexpr size_t kBytesMax = 1 << 20;

  // Writes messages to `out`, the write end of a pipe, which is made non-blocking.
  explicit Screen(UniqueFd out, size_t bytes_max = kBytesMax);
  ~Screen();  // waits until everything has been read, or the reader is gone
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // These functions queue what the functions of Console with the same names show.
  void line(std::string_view text, Fit fit = Fit::kAsIs) { add({Kind::kLine, std::string(text), fit}); }
  void live(const Live& live);
  void finish() { add({Kind::kFinish, ""}); }

  // watch() appends the descriptor to poll; call flush() when it is writable.
  void watch(std::vector<pollfd>& watched) const;
  void flush();

 private:
  enum class Kind { kLine, kLive, kFinish };
  struct Entry {
    Kind kind;
    std::string text;  // for kLive: an encoded message
    Fit fit = Fit::kAsIs;
  };

  void add(Entry entry);
  void leave_out_oldest();
  [[nodiscard]] bool empty() const { return sending_.empty() && queue_.empty() && left_out_ == 0; }
  [[nodiscard]] std::string next_message();

  UniqueFd out_;
  size_t bytes_max_;
  std::string sending_;  // a message that may be partly written
  std::deque<Entry> queue_;
  size_t bytes_ = 0;       // size of the texts in the queue
  uint64_t left_out_ = 0;  // lines dropped before the first entry of the queue
};

// Shows one message of a Screen on `console`. `message` has no newline. Code::kUsage if it is not such a message.
Result<> show(std::string_view message, Console& console);

}  // namespace dtrain::launch
