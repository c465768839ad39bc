// Keeps decoded pictures in memory (--data-cache), so that later epochs neither read nor decode them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/log.h"
#include "data/sources/image_source.h"
#include "images/image.h"

namespace dtrain::data {

// The memory that caches share. Threads may use it.
class CacheBudget {
 public:
  explicit CacheBudget(int64_t bytes) : bytes_(bytes), left_(bytes) {}
  // Takes `bytes` if that much is left.
  bool take(int64_t bytes);
  void give_back(int64_t bytes) { left_ += bytes; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  const int64_t bytes_;
  std::atomic<int64_t> left_;
};

struct PictureCacheOptions {
  std::shared_ptr<CacheBudget> budget;
  // Pictures are kept as images::first_resize() makes them, which is the first step of their augmentation. With kRandom they must
  // keep their size.
  int resize = images::kKeepSize;
  images::Interpolation interpolation = images::Interpolation::kBilinear;
  images::ImageSize crop = {};
  bool scaled_decoding = false;  // as in images::Distortion
};

// The pictures of `source`, with the same pixels, or, with `resize`, those that augmentation makes of them first. A
// picture that was read once is kept as long as the budget lasts. None is given up for another one: every epoch reads
// all pictures once, in a new random order, so the picture that was used last is the one that is needed last, and a
// cache that forgets the oldest would never have the one that is needed. Once the first pictures are kept, logs how many
// will fit.
//
// A picture of which only the part that a crop needs can be decoded is not kept.
std::shared_ptr<const ImageSource> cached(std::shared_ptr<const ImageSource> source, PictureCacheOptions options,
                                          Log log);

}  // namespace dtrain::data
