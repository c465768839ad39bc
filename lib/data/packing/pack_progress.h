// What im2rec shows while it packs: on a terminal a bar, elsewhere a line of text now and then (base/console.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/log.h"

namespace dtrain::data {

struct PackState {
  int64_t done = 0;  // images, packed or skipped
  int64_t total = 0;
  int64_t skipped = 0;
  double seconds = 0;       // since this run began
  int64_t done_before = 0;  // by an earlier run
};
// "train.rec [=====>    ] 45 %, 2300 of 5120 images, 830 per second, 0:04 left, 2 skipped".
std::string progress_text(const std::string& name, const PackState& state);

class PackProgress {
 public:
  // `done` images were packed by an earlier run.
  PackProgress(std::string name, int64_t done, int64_t total, const Log& log);
  ~PackProgress();  // removes the bar
  PackProgress(const PackProgress&) = delete;
  PackProgress& operator=(const PackProgress&) = delete;

  // To be called often; shows something after a second, then at most four times a second.
  void show(int64_t done, int64_t skipped);

 private:
  using Clock = std::chrono::steady_clock;
  std::string name_;
  PackState state_;
  const Log& log_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_ = begin_;
};

}  // namespace dtrain::data
