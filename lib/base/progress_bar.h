// The progress of a long piece of work, as live lines (base/live.h):
//   train.rec  45 %  2300 of 5120 images  830/s  ETA 3s  2 skipped
//   cifar-10-binary.tar.gz  27 %  45.2 of 170.1 MB  12.3 MB/s  ETA 10s
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"

namespace dtrain {

struct Work {
  std::string name;
  std::string unit;   // unit of the work: "images"; empty: bytes, which are shown in MB
  int64_t total = 0;  // amount of the whole work, in this unit; 0: not known
};

// The progress if `done` of the work is done, `done_before` of it by an earlier run, and `seconds` have passed since
// this run began. `more` is appended.
Live progress_of(const Work& work, int64_t done, int64_t done_before, double seconds, const std::string& more = "");

// Used by one thread at a time.
class ProgressBar {
 public:
  ProgressBar(Work work, ShowLive show) : work_(std::move(work)), show_(std::move(show)) {}
  ProgressBar(Work work, Log log)
      : ProgressBar(std::move(work), [log = std::move(log)](Live live) { log.live(std::move(live)); }) {}
  ~ProgressBar();  // removes the progress from the screen
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // To be called often. It displays the progress after the first second, and then four times a second. The work that is
  // already done at the first call is attributed to an earlier run, and does not count for the speed.
  void show(int64_t done, const std::string& more = "");
  // Sets a total that becomes known only during the work.
  void set_total(int64_t total) { work_.total = total; }

 private:
  using Clock = std::chrono::steady_clock;
  Work work_;
  ShowLive show_;
  std::optional<int64_t> done_before_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_ = begin_;
  bool is_shown_ = false;
};

}  // namespace dtrain
