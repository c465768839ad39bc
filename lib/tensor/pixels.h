// Images as bytes, and what makes of them the numbers that a network sees. On the host: devices do the same arithmetic
// by themselves, to the bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/shape.h"

namespace dtrain {

// Pixels are [h, w, c], uint8, as pictures are decoded: 1 channel (gray), 3 (blue, green, red) or 4 (blue, green, red,
// alpha). Numbers are [c, h, w], channels red, green, blue (, alpha), and so are mean and factor:
//   number[k][y][x] = (pixel[y][x] of channel k - mean[k]) * factor[k], then each row turned round if mirrored
// Immutable; threads share it.
class Normalisation {
 public:
  // `image`: [c, h, w]; `mean` (0 to 255) and `factor`: c values. `mean_image`, [c, h, w], counts instead of `mean` if
  // there is one.
  Normalisation(Shape image, std::vector<float> mean, std::vector<float> factor,
                std::shared_ptr<const std::vector<float>> mean_image);

  [[nodiscard]] const Shape& image() const { return image_; }
  [[nodiscard]] const std::vector<float>& mean() const { return mean_; }
  [[nodiscard]] const std::vector<float>& factor() const { return factor_; }
  [[nodiscard]] const std::vector<float>* mean_image() const { return mean_image_.get(); }  // nullptr: none

  // One image. `pixels`: the first of it, its rows `row_bytes` apart, so that it may be a part of a larger picture.
  void apply(const uint8_t* pixels, size_t row_bytes, bool mirrored, std::span<float> numbers) const;
  // Dense images one after the other, [n, h, w, c] and [n], to [n, c, h, w].
  void apply(std::span<const uint8_t> pixels, std::span<const uint8_t> mirrored, std::span<float> numbers) const;

 private:
  template <int Channels>
  void apply_rows(const uint8_t* pixels, size_t row_bytes, bool mirrored, float* numbers) const;

  Shape image_;
  std::vector<float> mean_, factor_;
  std::shared_ptr<const std::vector<float>> mean_image_;
  std::vector<float> table_;  // by channel and pixel value, without mean_image
};

}  // namespace dtrain
