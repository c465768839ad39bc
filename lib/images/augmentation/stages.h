// The time that each stage of reading an image takes.
#pragma once

#include <chrono>
#include <cstdint>

namespace dtrain::images {

struct Stages {
  int64_t images = 0;  // number of images that were timed
  // Total seconds for these images.
  double read = 0;    // reading the record or the file
  double header = 0;  // parsing the image's header, which contains its size
  double decode = 0;
  double color = 0;
  double rows = 0;  // affine map, border, resize, normalization, and the copy into the batch

  Stages& operator+=(const Stages& other) {
    images += other.images;
    read += other.read;
    header += other.header;
    decode += other.decode;
    color += other.color;
    rows += other.rows;
    return *this;
  }
  [[nodiscard]] double all() const { return read + header + decode + color + rows; }
};

// Adds the time for which it exists to `seconds`. If `seconds` is null, it does not read the clock.
class StageTimer {
 public:
  explicit StageTimer(double* seconds) : seconds_(seconds), begin_(seconds == nullptr ? Time() : Clock::now()) {}
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;
  ~StageTimer() {
    if (seconds_ != nullptr) *seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  double* seconds_;
  Time begin_;
};

}  // namespace dtrain::images
