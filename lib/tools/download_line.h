// The live line of a long copy: how much is done, how fast, and how long it will still take.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/log.h"

namespace dtrain::tools {

// "cifar-10-binary.tar.gz  27 %  45.2 of 170.1 MB  12.3 MB/s  ETA 0m10s". `seconds` have passed since `begin` bytes were
// there; total 0: unknown.
std::string download_text(const std::string& name, int64_t begin, int64_t have, int64_t total, double seconds);

class DownloadLine {
 public:
  DownloadLine(std::string name, const Log& log) : name_(std::move(name)), log_(log) {}
  ~DownloadLine() {
    if (is_shown_) log_.live("");
  }
  DownloadLine(const DownloadLine&) = delete;
  DownloadLine& operator=(const DownloadLine&) = delete;

  // Draws at most five times a second.
  void show(int64_t have, int64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  std::string name_;
  const Log& log_;
  Clock::time_point start_ = Clock::now(), shown_ = start_;
  int64_t begin_ = -1;
  bool is_shown_ = false;
};

}  // namespace dtrain::tools
