// From a decoded picture to the numbers that a network sees (formats.md 3.4): pad, enlarge, crop, mirror, normalise.
// Or to the pixels that become these numbers elsewhere (tensor/pixels.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "data/image.h"
#include "tensor/pixels.h"
#include "tensor/shape.h"

namespace dtrain::data {

struct AugmentOptions {
  Shape image = {};              // [c, h, w] of the result; c is 1, 3 or 4
  int pad = 0;                   // border on all four sides, before the crop
  int fill_value = 127;          // its colour, all channels
  bool random_crop = false;      // else the central one, offsets rounded down
  bool random_mirror = false;    // left-right with probability 0.5
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
  struct Scratch {
    Image padded, enlarged;
  };

  explicit Augmenter(AugmentOptions options);

  // Writes [c, h, w] to `out`:
  //   out[k][y][x] = (p_k - mean_k) * scale / std_k, channels red, green, blue (, alpha)
  // A picture smaller than the crop is enlarged, bilinear: first to h rows, then to w columns, both rounding the other
  // edge down. Draws in this order: y and x of the crop if random_crop, the coin if random_mirror.
  // Code::kData if the picture has other channels than the result, or is so narrow that enlarging it takes too much
  // memory.
  Result<> apply(const Image& decoded, RandomStream& random, Scratch& scratch, std::span<float> out) const;
  // The same up to the mirror: writes the crop's pixels, [h, w, c], not yet mirrored, to `out`; normalisation() makes
  // of them what apply makes, to the bit.
  Result<Placement> crop(const Image& decoded, RandomStream& random, Scratch& scratch, std::span<uint8_t> out) const;

  [[nodiscard]] const AugmentOptions& options() const { return options_; }
  [[nodiscard]] const std::shared_ptr<const Normalisation>& normalisation() const { return normalisation_; }

 private:
  // The decoded picture or what prepare made of it in the scratch memory, and the crop's place there.
  struct Crop {
    const Image* image;
    Placement at;
  };
  Result<Crop> find_crop(const Image& decoded, RandomStream& random, Scratch& scratch) const;
  Result<const Image*> prepare(const Image& decoded, Scratch& scratch) const;
  [[nodiscard]] Placement place(const Image& image, RandomStream& random) const;

  AugmentOptions options_;
  int height_, width_;
  std::shared_ptr<const Normalisation> normalisation_;
};

// `in` with a border of `pad` pixels of colour `fill` in `out`.
void pad_image(const Image& in, int pad, int fill, Image& out);

}  // namespace dtrain::data
