// The parameters of the random changes that make images differ from epoch to epoch.
#pragma once

#include <vector>

#include "images/image.h"

namespace dtrain::images {

struct Range {
  double min = 1, max = 1;
  [[nodiscard]] bool is_one() const { return min == 1 && max == 1; }
};

// For images of 3 channels.
struct ColorDistortion {
  double brightness = 0, contrast = 0, saturation = 0;  // each factor is drawn from the range 1 - value to 1 + value
  int h_max = 0, s_max = 0, l_max = 0;  // the largest shifts of hue, saturation, lightness (8 bits, as OpenCV's)
  double pca_noise = 0;  // standard deviation of the noise along the principal components of ImageNet's colors

  [[nodiscard]] bool jitters() const { return brightness > 0 || contrast > 0 || saturation > 0; }
  [[nodiscard]] bool shifts_hsl() const { return h_max != 0 || s_max != 0 || l_max != 0; }
  [[nodiscard]] bool any() const { return jitters() || shifts_hsl() || pca_noise > 0; }
};

// By default an image keeps its size and the crop is the central one.
struct Distortion {
  // The method that is used whenever the size of an image changes.
  Interpolation interpolation = Interpolation::kBilinear;
  // The resize in the first step: a length of the shorter edge, kKeepSize or kFitCrop (images/image.h).
  int resize = kKeepSize;

  // The affine step. Angles are in whole degrees.
  int rotate_max = 0;                 // the angle is drawn from -rotate_max to rotate_max
  int rotate = 0;                     // if above 0, all images are rotated by this angle instead
  std::vector<int> rotate_list = {};  // if not empty: an angle drawn from this list instead
  double shear_max = 0;               // the shear is drawn from -shear_max to shear_max
  Range scale = {};
  Range aspect = {};  // factor on height / width; with random_resized_crop: ratio of the crop's edges
  double img_size_min = 0, img_size_max = 1e10;  // bounds for both edges of the image after the affine step

  int pad = 0;           // width of the border that is added on all four sides, before the crop
  int fill_value = 127;  // value of the border and of areas that the affine step leaves empty, in all channels

  bool random_crop = false;  // whether the position of the crop is random; false: the center, with offsets rounded down
  bool random_resized_crop = false;  // crop a random part of the image's area, then resize it
  Range area = {};                   // range from which that part's fraction of the image's area is drawn
  int crop_size_min = -1,
      crop_size_max = -1;  // if above 0: crop a square with an edge drawn from this range, then resize it

  ColorDistortion color = {};
  bool random_mirror = false;  // mirror the image left to right, with probability 0.5
  // Changes of the normalized floats: they are multiplied by a factor of at most 1 +- random_contrast, then a number of
  // at most +- random_illumination (in units of a pixel value) is added.
  double random_contrast = 0, random_illumination = 0;

  [[nodiscard]] bool is_affine() const {
    return rotate_max > 0 || rotate > 0 || !rotate_list.empty() || shear_max > 0 || !scale.is_one() ||
           (!random_resized_crop && !aspect.is_one()) || img_size_min != 0 || img_size_max != 1e10;
  }
  [[nodiscard]] bool changes_floats() const { return random_contrast > 0 || random_illumination > 0; }
};

}  // namespace dtrain::images
