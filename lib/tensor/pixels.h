// Images as bytes, and their conversion to the floats that a network reads. This is the host's implementation; devices
// have their own, whose results are the same bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/shape.h"

namespace dtrain {

// Pixels are [h, w, c], uint8, in the order in which images are decoded: 1 channel (gray), 3 (blue, green, red) or 4
// (blue, green, red, alpha). The floats are [c, h, w] with the channels red, green, blue (, alpha). So are mean and
// factor:
//   number[k][y][x] = (pixel[y][x] of channel k - mean[k]) * factor[k], then each row is reversed if mirrored
// Immutable; threads may share it.
class Normalisation {
 public:
  // `image`: [c, h, w]; `mean` (0 to 255) and `factor`: c values each. `mean_image`, [c, h, w], replaces `mean` if it
  // is not null.
  Normalisation(Shape image, std::vector<float> mean, std::vector<float> factor,
                std::shared_ptr<const std::vector<float>> mean_image);

  [[nodiscard]] const Shape& image() const { return image_; }
  [[nodiscard]] const std::vector<float>& mean() const { return mean_; }
  [[nodiscard]] const std::vector<float>& factor() const { return factor_; }
  [[nodiscard]] const std::vector<float>* mean_image() const { return mean_image_.get(); }  // null if there is none

  // Converts row y of an image, [w, c]. `floats` are those of the whole image.
  void apply_row(const uint8_t* pixels, int64_t y, bool mirrored, std::span<float> floats) const;
  // Converts contiguous images, [n, h, w, c], with `mirrored` [n], to [n, c, h, w].
  void apply(std::span<const uint8_t> pixels, std::span<const uint8_t> mirrored, std::span<float> floats) const;

 private:
  // Whether there are 1 or 3 channels and no mean image, so that the same two floats apply to all pixels of a channel.
  [[nodiscard]] bool is_plain() const { return mean_image_ == nullptr && image_[0] != 4; }
  // If is_plain(): converts `count` pixels that are not mirrored, beginning at pixel `first` of the image.
  void apply_plain(const uint8_t* pixels, int64_t first, int64_t count, float* floats) const;
  template <int Channels>
  void apply_row(const uint8_t* pixels, int64_t y, bool mirrored, float* floats) const;

  Shape image_;
  std::vector<float> mean_, factor_;
  std::shared_ptr<const std::vector<float>> mean_image_;
  std::vector<float> table_;  // indexed by channel and pixel value; used without mean_image
};

}  // namespace dtrain
