// The color steps of augmentation: brightness, contrast and saturation in random order, then an HSL shift, then PCA
// noise. Images have 3 channels and are changed in place. Between the steps, values are rounded to 8 bits.
#pragma once

#include <array>

#include "images/augmentation/augmentation.h"
#include "images/image.h"

namespace dtrain::images {

// Applies all steps of the change.
void change_color(const ColorChange& change, Image& image);

// Multiplies each value p by the factor.
void change_brightness(double factor, Image& image);
// p <- factor p + (1 - factor) g, where g is the mean of the gray values 0.299 c0 + 0.587 c1 + 0.114 c2. The channels
// are in the order blue, green, red, but the weights are those for red, green, blue, as in MXNet.
void change_contrast(double factor, Image& image);
// Like change_contrast, but g is each pixel's own gray value instead of the mean.
void change_saturation(double factor, Image& image);

void shift_hsl(const HslShift& shift, Image& image);

// Adds alpha_0 .. alpha_2 times the principal components of ImageNet's colors. Values are clipped to 0 .. 255 and
// rounded toward 0.
void add_pca_noise(const std::array<double, 3>& alpha, Image& image);

}  // namespace dtrain::images
