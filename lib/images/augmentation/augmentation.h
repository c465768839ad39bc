// What augmentation does with one image: drawn from the image's size, before a pixel of it is decoded, so that only
// the part that the crop needs has to be decoded. geometry.h and color.h carry it out.
#pragma once

#include <array>
#include <optional>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "images/augmentation/distortion.h"
#include "images/image.h"

namespace dtrain::images {

// The steps that change where pixels lie. Each works on the result of the one before it.
struct Resize {
  ImageSize size = {};
  Interpolation method = Interpolation::kBilinear;  // one of OpenCV's five
};
// Maps source (x, y) to destination, row by row, and has the size of the destination.
struct AffineMap {
  float m[2][3];
  int64_t height, width;
};
struct Warp {
  AffineMap map;
  Interpolation method;
  int fill = 0;  // of areas that the image does not cover, in all channels
};
struct Border {
  int width = 0;  // on all four sides
  int fill = 0;
};
struct Cut {
  Window part;
};
using GeometryStep = std::variant<Resize, Warp, Border, Cut>;

// The order of brightness, contrast and saturation, and their factors.
struct ColorJitter {
  enum class Step { kBrightness, kContrast, kSaturation };
  std::array<Step, 3> order = {};
  double brightness = 1, contrast = 1, saturation = 1;
};
// Offsets in OpenCV's 8-bit HLS: hue 0 to 180, the others 0 to 255. Values outside are clipped.
struct HslShift {
  int h = 0, s = 0, l = 0;
};
// What happens to the colors, in this order.
struct ColorChange {
  std::optional<ColorJitter> jitter = {};
  std::optional<HslShift> hsl = {};
  std::optional<std::array<double, 3>> pca = {};  // how much of each principal component of ImageNet's colors is added

  [[nodiscard]] bool empty() const { return !jitter && !hsl && !pca; }
};

struct Augmentation {
  std::vector<GeometryStep> geometry = {};  // the last step leaves an image of the size of the crop
  ColorChange color = {};
  bool mirrored = false;
  float contrast = 1, light = 0;  // of the normalized floats: multiplied by the first; the second, times the scale of
                                  // its channel, is added
};

// Draws the augmentation of an image of size `from`, whose result has the size `to`. Random numbers are drawn in the
// order of the steps, so equal streams and sizes give equal ones. An image that is too small for its crop is enlarged:
// first to the rows of `to`, then to its columns, both times rounding the other edge down. Code::kData: a result would
// be too large, or the image is smaller than crop_size_max.
Result<Augmentation> draw_augmentation(const Distortion& distortion, ImageSize from, ImageSize to,
                                       RandomStream& random);

// The steps that `distortion` enables, with random parameters.
ColorChange draw_color_change(const ColorDistortion& distortion, RandomStream& random);

struct AffineDraw {
  float shear = 0;
  int angle = 0;  // degrees
  float scale = 1, ratio = 1;
};
// The destination has the scaled size, within the bounds of `distortion`, and at least one pixel; the aspect ratio
// stretches the image inside it. Computed in float, as MXNet does.
AffineMap affine_map(ImageSize from, const AffineDraw& draw, const Distortion& distortion);

}  // namespace dtrain::images
