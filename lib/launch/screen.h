// What a launcher shows of its job, on its way to the process that writes it to the terminal (foreground.h). The job
// never waits for that: what the reader does not take is queued, and when the queue is full its oldest lines are left
// out, with a line in their place that says how many.
#pragma once

#include <poll.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/console.h"
#include "base/error.h"
#include "launch/unique_fd.h"

namespace dtrain::launch {

class Screen {
 public:
  static constexpr size_t kBytesMax = 1 << 20;

  // Writes messages to `out`, the end of a pipe, which is made non-blocking.
  explicit Screen(UniqueFd out, size_t bytes_max = kBytesMax);
  ~Screen();  // waits until all of it is read, or the reader has gone
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // As Console's.
  void line(std::string_view text) { add({Kind::kLine, std::string(text)}); }
  void live(std::string_view text) { add({Kind::kLive, std::string(text)}); }
  void finish() { add({Kind::kFinish, ""}); }

  // What to poll for, and to be called then.
  void watch(std::vector<pollfd>& watched) const;
  void flush();

 private:
  enum class Kind { kLine, kLive, kFinish };
  struct Entry {
    Kind kind;
    std::string text;
  };

  void add(Entry entry);
  void leave_out_oldest();
  [[nodiscard]] bool empty() const { return sending_.empty() && queue_.empty() && left_out_ == 0; }
  [[nodiscard]] std::string next_message();

  UniqueFd out_;
  size_t bytes_max_;
  std::string sending_;  // a message of which a part may have been written
  std::deque<Entry> queue_;
  size_t bytes_ = 0;       // of the texts in the queue
  uint64_t left_out_ = 0;  // lines that the queue had before its first entry
};

// Shows on `console` what one of a Screen's messages says. `message`: without its newline. Code::kUsage: it is none.
Result<> show(std::string_view message, Console& console);

}  // namespace dtrain::launch
