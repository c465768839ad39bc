// Turns a decoded picture into the numbers that a network sees: resize, affine map, border, crop, colors, mirror,
// normalize, in this order. Or stops at the pixels, which become the same numbers elsewhere (tensor/pixels.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "data/distortion.h"
#include "data/geometry.h"
#include "data/image.h"
#include "tensor/pixels.h"
#include "tensor/shape.h"

namespace dtrain::data {

struct AugmentOptions {
  Shape image = {};  // [c, h, w] of the result; c is 1, 3 or 4
  Distortion distortion = {};
  bool mirror = false;           // always
  std::vector<float> mean = {};  // c values, in the order red, green, blue, alpha; 0 to 255
  std::vector<float> std = {};   // c divisors
  float scale = 1;
  // [c, h, w], channels in the same order, instead of `mean` if there is one. Taken at unmirrored positions.
  std::shared_ptr<const std::vector<float>> mean_image = nullptr;
};

// Where a crop lies in a picture, and whether it is mirrored.
struct Placement {
  int y = 0, x = 0;
  bool mirrored = false;
};

// Immutable after construction; threads share it, each with its own Scratch.
class Augmenter {
 public:
  using Scratch = PictureMemory;

  explicit Augmenter(AugmentOptions options);

  // Writes [c, h, w] to `out`:
  //   out[k][y][x] = (p_k - mean_k) * scale / std_k, channels red, green, blue (, alpha)
  // and what Distortion::changes_numbers stands for. A picture smaller than the crop is enlarged (geometry.h). Draws in
  // the order of the text. Code::kData if the picture has other channels than the result, is too small for
  // crop_size_max, or so narrow that enlarging it takes too much memory.
  Result<> apply(const Image& decoded, RandomStream& random, Scratch& scratch, std::span<float> out) const;
  // The same up to the mirror: writes the crop's pixels, [h, w, c], not yet mirrored, to `out`; normalisation(), which
  // there must be, makes of them what apply makes, to the bit.
  Result<Placement> crop(const Image& decoded, RandomStream& random, Scratch& scratch, std::span<uint8_t> out) const;

  [[nodiscard]] const AugmentOptions& options() const { return options_; }
  // What apply does with the crop's pixels; nullptr if that is drawn for each picture (Distortion::changes_numbers).
  [[nodiscard]] std::shared_ptr<const Normalisation> normalisation() const {
    return options_.distortion.changes_numbers() ? nullptr : normalisation_;
  }

 private:
  // The decoded picture or what was made of it in the scratch memory, and the crop's place there.
  struct Crop {
    const Image* image;
    Placement at;
  };
  Result<Crop> make_crop(const Image& decoded, RandomStream& random, Scratch& scratch) const;
  void change_numbers(RandomStream& random, std::span<float> out) const;

  AugmentOptions options_;
  int height_, width_;
  std::shared_ptr<const Normalisation> normalisation_;
};

}  // namespace dtrain::data
