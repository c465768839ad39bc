// Turns an image into the floats that a network sees: resize, affine map, border, crop, colors, mirror, normalize, in
// this order. Alternatively stops at the pixels, which are turned into the same floats elsewhere (tensor/pixels.h). All
// random numbers are drawn first (augmentation.h), from the image's size, so that only the part of the image that the
// crop needs is decoded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "images/augmentation/augmentation.h"
#include "images/augmentation/distortion.h"
#include "images/augmentation/geometry.h"
#include "images/augmentation/stages.h"
#include "images/open_image.h"
#include "tensor/pixels.h"
#include "tensor/shape.h"

namespace dtrain::images {

struct AugmentOptions {
  Shape image = {};  // [c, h, w] of the result; c is 1, 3 or 4
  Distortion distortion = {};
  bool mirror = false;           // whether to mirror every image
  std::vector<float> mean = {};  // c values in the order red, green, blue, alpha, each 0 to 255
  std::vector<float> std = {};   // standard deviations: c values by which the pixels are divided
  float scale = 1;
  // The mean image, as [c, h, w] with the channels in the same order as in `mean`. Replaces `mean` if not null. Indexed
  // by positions before mirroring.
  std::shared_ptr<const std::vector<float>> mean_image = nullptr;
};

// Immutable after construction; threads share it, each with a separate Scratch.
class Augmenter {
 public:
  struct Scratch {
    ImageMemory geometry;
    Image crop;                // a copy of the crop, for changing its colors
    Stages* stages = nullptr;  // if not null, the time of `color` is added there
  };

  explicit Augmenter(AugmentOptions options);

  // Writes [c, h, w] to `out`:
  //   out[k][y][x] = (p_k - mean_k) * scale / std_k, channels red, green, blue (, alpha)
  // then applies random contrast and illumination if Distortion::changes_floats. An image smaller than the crop is
  // enlarged first (augmentation.h). Code::kData if the image does not have the channels of the result, is smaller
  // than crop_size_max, is so narrow that enlarging it would take too much memory, or cannot be decoded.
  Result<> apply(OpenImage& image, RandomStream& random, Scratch& scratch, std::span<float> out) const;
  // Like apply, but stops before the mirror: writes the pixels of the crop, [h, w, c], not yet mirrored, to `out`, and
  // returns whether they must be mirrored. normalisation(), which must not be null, turns them into exactly the floats
  // that apply writes.
  Result<bool> crop(OpenImage& image, RandomStream& random, Scratch& scratch, std::span<uint8_t> out) const;

  [[nodiscard]] const AugmentOptions& options() const { return options_; }
  // The normalization that apply() applies to the crop's pixels; nullptr if it differs from image to image
  // (Distortion::changes_floats).
  [[nodiscard]] std::shared_ptr<const Normalisation> normalisation() const {
    return options_.distortion.changes_floats() ? nullptr : normalisation_;
  }

 private:
  Result<Augmentation> draw(const OpenImage& image, RandomStream& random) const;
  // Calls take(row, y) for each row of the crop.
  template <class Take>
  Result<> make_rows(const Augmentation& augmentation, OpenImage& image, Scratch& scratch, const Take& take) const;
  void change_floats(const Augmentation& augmentation, std::span<float> out) const;

  AugmentOptions options_;
  int height_, width_;
  std::shared_ptr<const Normalisation> normalisation_;
};

}  // namespace dtrain::images
