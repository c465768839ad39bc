#include "images/augmentation/color.h"

#include <algorithm>
#include <opencv2/imgproc.hpp>

#include "images/mat.h"

namespace dtrain::images {
namespace {

// 8-bit gray values in which the weights of red and blue are exchanged, as in MXNet.
cv::Mat gray_of(const cv::Mat& pixels) {
  cv::Mat gray;
  cv::cvtColor(pixels, gray, cv::COLOR_RGB2GRAY);
  return gray;
}

void apply(const ColorJitter& jitter, Image& image) {
  for (const ColorJitter::Step step : jitter.order) {
    switch (step) {
      case ColorJitter::Step::kBrightness: change_brightness(jitter.brightness, image); break;
      case ColorJitter::Step::kContrast: change_contrast(jitter.contrast, image); break;
      case ColorJitter::Step::kSaturation: change_saturation(jitter.saturation, image); break;
    }
  }
}

}  // namespace

void change_brightness(double factor, Image& image) {
  cv::Mat pixels = view(image);
  pixels.convertTo(pixels, -1, factor, 0);
}

void change_contrast(double factor, Image& image) {
  cv::Mat pixels = view(image);
  pixels.convertTo(pixels, -1, factor, (1 - factor) * cv::mean(gray_of(pixels))[0]);
}

void change_saturation(double factor, Image& image) {
  cv::Mat pixels = view(image), gray;
  cv::cvtColor(gray_of(pixels), gray, cv::COLOR_GRAY2BGR);
  cv::addWeighted(gray, 1 - factor, pixels, factor, 0, pixels);
}

void shift_hsl(const HslShift& shift, Image& image) {
  constexpr int kMax[] = {180, 255, 255};
  const int offset[] = {shift.h, shift.l, shift.s};
  uint8_t moved[3][256];
  for (int k = 0; k < 3; k++) {
    for (int p = 0; p < 256; p++) moved[k][p] = static_cast<uint8_t>(std::clamp(p + offset[k], 0, kMax[k]));
  }
  cv::Mat pixels = view(image);
  cv::cvtColor(pixels, pixels, cv::COLOR_BGR2HLS);
  for (size_t i = 0; i < image.pixels.size(); i++) image.pixels[i] = moved[i % 3][image.pixels[i]];
  cv::cvtColor(pixels, pixels, cv::COLOR_HLS2BGR);
}

void add_pca_noise(const std::array<double, 3>& alpha, Image& image) {
  constexpr double kValue[3] = {55.46, 4.794, 1.148};
  constexpr double kVector[3][3] = {{-0.5675, 0.7192, 0.4009}, {-0.5808, -0.0045, -0.8140}, {-0.5836, -0.6948, 0.4203}};
  uint8_t moved[3][256];
  for (int k = 0; k < 3; k++) {
    // The channels are blue, green, red, but the rows of kVector are in the order red, green, blue.
    const double* vector = kVector[2 - k];
    double offset = 0;
    for (int i = 0; i < 3; i++) offset += vector[i] * kValue[i] * alpha[static_cast<size_t>(i)];
    for (int p = 0; p < 256; p++) moved[k][p] = static_cast<uint8_t>(std::clamp(p + offset, 0.0, 255.0));
  }
  for (size_t i = 0; i < image.pixels.size(); i++) image.pixels[i] = moved[i % 3][image.pixels[i]];
}

void change_color(const ColorChange& change, Image& image) {
  DT_CHECK(image.channels == 3, "color changes need 3 channels, but the image has {}", image.channels);
  if (change.jitter) apply(*change.jitter, image);
  if (change.hsl) shift_hsl(*change.hsl, image);
  if (change.pca) add_pca_noise(*change.pca, image);
}

}  // namespace dtrain::images
