// The augmentation of one image. It is drawn from the image's size before any pixel is decoded, so that only the part
// that the crop needs has to be decoded. geometry.h and color.h carry it out.
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

// The steps that move pixels. Each works on the result of the previous one.
struct Resize {
  ImageSize size = {};
  Interpolation method = Interpolation::kBilinear;  // one of OpenCV's five interpolation methods
};
// Maps source positions (x, y) to destination positions. m has two rows; height and width are those of the destination.
struct AffineMap {
  float m[2][3];
  int64_t height, width;
};
struct Warp {
  AffineMap map;
  Interpolation method;
  int fill = 0;  // value of areas that the image does not cover, in all channels
};
struct Border {
  int width = 0;  // width of the border on all four sides
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
// The changes of the colors, in the order in which they are applied.
struct ColorChange {
  std::optional<ColorJitter> jitter = {};
  std::optional<HslShift> hsl = {};
  // Weights with which the three principal components of ImageNet's colors are added.
  std::optional<std::array<double, 3>> pca = {};

  [[nodiscard]] bool empty() const { return !jitter && !hsl && !pca; }
};

struct Augmentation {
  std::vector<GeometryStep> geometry = {};  // the last step produces an image of the crop's size
  ColorChange color = {};
  bool mirrored = false;
  // Change of the normalized floats: they are multiplied by `contrast`, then `light` times the scale of the channel is
  // added.
  float contrast = 1, light = 0;
};

// Draws the augmentation of an image of size `from`, whose result has the size `to`. Random numbers are drawn in the
// order of the steps, so equal streams and sizes give equal augmentations. An image that is too small for its crop is
// enlarged: first to the height of `to`, then to its width, each time rounding the other edge down. Code::kData: a
// result would be too large, or the image is smaller than crop_size_max.
Result<Augmentation> draw_augmentation(const Distortion& distortion, ImageSize from, ImageSize to,
                                       RandomStream& random);

// The steps that `distortion` enables, with random parameters.
ColorChange draw_color_change(const ColorDistortion& distortion, RandomStream& random);

struct AffineDraw {
  float shear = 0;
  int angle = 0;  // angle of the rotation, in degrees
  float scale = 1, ratio = 1;
};
// The affine map of an image of size `from`. The destination has the scaled size, within the bounds of `distortion`,
// and at least one pixel; the aspect ratio stretches the image inside it. Computed in float, like MXNet.
AffineMap affine_map(ImageSize from, const AffineDraw& draw, const Distortion& distortion);

}  // namespace dtrain::images
