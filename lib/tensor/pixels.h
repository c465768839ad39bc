// Images as bytes, and their conversion to the floats that a network reads. This is the implementation for the host.
// Devices have implementations of their own, with the same results bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/shape.h"

namespace dtrain {

// Pixels are uint8 [h, w, c], with the channels in the order that the decoder produces: 1 (gray), 3 (blue, green, red)
// or 4 (blue, green, red, alpha). The floats are [c, h, w], with the channels red, green, blue and, if present, alpha.
// The mean and the factor have the same order:
//   number[k][y][x] = (pixel[y][x] of channel k - mean[k]) * factor[k], then each row is reversed if mirrored
// Immutable; several threads may share it.
class Normalisation {
 public:
  // `image`: the shape [c, h, w]. `mean` (0 to 255) and `factor`: one value for each channel. `mean_image`: values [c,
  // h, w] that replace `mean`; null: there are none.
  Normalisation(Shape image, std::vector<float> mean, std::vector<float> factor,
                std::shared_ptr<const std::vector<float>> mean_image);

  [[nodiscard]] const Shape& image() const { return image_; }
  [[nodiscard]] const std::vector<float>& mean() const { return mean_; }
  [[nodiscard]] const std::vector<float>& factor() const { return factor_; }
  // The mean image; null if there is none.
  [[nodiscard]] const std::vector<float>* mean_image() const { return mean_image_.get(); }

  // Converts row y of an image, whose pixels are [w, c]. `floats` must be the floats of the whole image.
  void apply_row(const uint8_t* pixels, int64_t y, bool mirrored, std::span<float> floats) const;
  // Converts n contiguous images [n, h, w, c] to floats [n, c, h, w]. `mirrored` has one value for each image.
  void apply(std::span<const uint8_t> pixels, std::span<const uint8_t> mirrored, std::span<float> floats) const;

 private:
  // True if there are 1 or 3 channels and no mean image: the same mean and factor then apply to all pixels of a
  // channel.
  [[nodiscard]] bool is_plain() const { return mean_image_ == nullptr && image_[0] != 4; }
  // Only if is_plain(): converts `count` pixels without mirroring, beginning with pixel number `first` of the image.
  void apply_plain(const uint8_t* pixels, int64_t first, int64_t count, float* floats) const;
  template <int Channels>
  void apply_row(const uint8_t* pixels, int64_t y, bool mirrored, float* floats) const;

  Shape image_;
  std::vector<float> mean_, factor_;
  std::shared_ptr<const std::vector<float>> mean_image_;
  std::vector<float> table_;  // the float for each channel and pixel value, indexed by both; not used with a mean image
};

}  // namespace dtrain
