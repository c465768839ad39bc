// The parameters of the random changes that make pictures differ from epoch to epoch.
#pragma once

#include <vector>

#include "data/image.h"

namespace dtrain::data {

struct Range {
  double min = 1, max = 1;
  [[nodiscard]] bool is_one() const { return min == 1 && max == 1; }
};

// Of pictures of 3 channels.
struct ColorDistortion {
  double brightness = 0, contrast = 0, saturation = 0;  // each factor is drawn from 1 - this to 1 + this
  int h_max = 0, s_max = 0, l_max = 0;  // hue, saturation, lightness (OpenCV's 8 bits) move by so much at most
  double pca_noise = 0;                 // standard deviation

  [[nodiscard]] bool jitters() const { return brightness > 0 || contrast > 0 || saturation > 0; }
  [[nodiscard]] bool shifts_hsl() const { return h_max != 0 || s_max != 0 || l_max != 0; }
  [[nodiscard]] bool any() const { return jitters() || shifts_hsl() || pca_noise > 0; }
};

// By default a picture keeps its size and is cut in the centre.
struct Distortion {
  Interpolation interpolation = Interpolation::kBilinear;  // wherever a size changes
  int resize = 0;                                          // its shorter edge becomes this first; 0: it is as it is

  // The affine step. Angles are in whole degrees.
  int rotate_max = 0;                 // drawn from -rotate_max to rotate_max
  int rotate = 0;                     // above 0: this one instead
  std::vector<int> rotate_list = {};  // not empty: one of these instead of both
  double shear_max = 0;               // drawn from -shear_max to shear_max
  Range scale = {};
  Range aspect = {};                             // width by height; with random_resized_crop that of its crops
  double img_size_min = 0, img_size_max = 1e10;  // bounds of both edges of the result

  int pad = 0;           // border on all four sides, before the crop
  int fill_value = 127;  // its colour and that of what the affine step lays bare, all channels

  bool random_crop = false;          // else the central one, offsets rounded down
  bool random_resized_crop = false;  // of a part of the picture's area, drawn, which is then resized
  Range area = {};                   // that part
  int crop_size_min = -1,
      crop_size_max = -1;  // above 0: of a square with an edge so long, drawn, which is then resized

  ColorDistortion color = {};
  bool random_mirror = false;  // left-right with probability 0.5
  // Of the normalised numbers: they are multiplied by 1 +- random_contrast, and then +- random_illumination (in units
  // of a pixel) is added.
  double random_contrast = 0, random_illumination = 0;

  [[nodiscard]] bool is_affine() const {
    return rotate_max > 0 || rotate > 0 || !rotate_list.empty() || shear_max > 0 || !scale.is_one() ||
           (!random_resized_crop && !aspect.is_one()) || img_size_min != 0 || img_size_max != 1e10;
  }
  [[nodiscard]] bool changes_numbers() const { return random_contrast > 0 || random_illumination > 0; }
};

}  // namespace dtrain::data
