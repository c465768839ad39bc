#include "tensor/pixels.h"

#include <algorithm>

#include "base/error.h"
#include "base/simd.h"

namespace dtrain {

Normalisation::Normalisation(Shape image, std::vector<float> mean, std::vector<float> factor,
                             std::shared_ptr<const std::vector<float>> mean_image)
    : image_(std::move(image)), mean_(std::move(mean)), factor_(std::move(factor)), mean_image_(std::move(mean_image)) {
  const auto channels = static_cast<size_t>(image_[0]);
  DT_CHECK(channels == 1 || channels == 3 || channels == 4,
           "images must have 1, 3 or 4 channels, but their shape is {}", to_string(image_));
  DT_CHECK(mean_.size() == channels && factor_.size() == channels, "mean and factor need {} values", channels);
  DT_CHECK(mean_image_ == nullptr || mean_image_->size() == static_cast<size_t>(element_count(image_)),
           "the mean image has {} floats, which does not match the image shape {}", mean_image_->size(),
           to_string(image_));
  for (size_t k = 0; k < channels; k++) {
    for (int p = 0; p < 256; p++) table_.push_back((static_cast<float>(p) - mean_[k]) * factor_[k]);
  }
}

namespace {

// Converts one row of one channel. number(pixel, x) converts one pixel; pixels are `Channels` bytes apart.
template <int Channels, class Number>
void normalise_row(const uint8_t* pixel, int width, bool mirrored, float* out, const Number& number) {
  if (mirrored) {
    for (int x = 0; x < width; x++) out[width - 1 - x] = number(pixel[ptrdiff_t{Channels} * x], x);
  } else {
    for (int x = 0; x < width; x++) out[x] = number(pixel[ptrdiff_t{Channels} * x], x);
  }
}

// The following loops compute the same bits without the table, so that the compiler can vectorize them. Without
// mirroring, rows need not be processed separately: several rows, or a whole image, are treated as one long row.
struct Planes {
  float *red, *green, *blue;
};
DT_MULTI_ISA void normalise_colors(const uint8_t* pixels, int64_t count, const float* mean, const float* factor,
                                   const Planes& out) {
  float* const __restrict red = out.red;
  float* const __restrict green = out.green;
  float* const __restrict blue = out.blue;
  const float mean_r = mean[0], mean_g = mean[1], mean_b = mean[2];
  const float factor_r = factor[0], factor_g = factor[1], factor_b = factor[2];
  for (int64_t x = 0; x < count; x++) {
    red[x] = (static_cast<float>(pixels[3 * x + 2]) - mean_r) * factor_r;
    green[x] = (static_cast<float>(pixels[3 * x + 1]) - mean_g) * factor_g;
    blue[x] = (static_cast<float>(pixels[3 * x]) - mean_b) * factor_b;
  }
}

DT_MULTI_ISA void normalise_gray(const uint8_t* __restrict pixels, int64_t count, float mean, float factor,
                                 float* __restrict out) {
  for (int64_t x = 0; x < count; x++) out[x] = (static_cast<float>(pixels[x]) - mean) * factor;
}

DT_MULTI_ISA void reverse_rows(float* floats, int64_t rows, int64_t width) {
  for (int64_t y = 0; y < rows; y++) {
    float* const __restrict row = floats + y * width;
    for (int64_t x = 0; x < width / 2; x++) std::swap(row[x], row[width - 1 - x]);
  }
}

// The index of the pixel's byte that becomes channel k: blue, green, red become red, green, blue; alpha remains the
// last.
int source_channel(int k, int channels) {
  return channels >= 3 && k < 3 ? 2 - k : k;
}

}  // namespace

template <int Channels>
void Normalisation::apply_row(const uint8_t* pixels, int64_t y, bool mirrored, float* floats) const {
  const auto height = static_cast<size_t>(image_[1]), width = static_cast<size_t>(image_[2]);
  for (int k = 0; k < Channels; k++) {
    const uint8_t* pixel = pixels + source_channel(k, Channels);
    const size_t row = (static_cast<size_t>(k) * height + static_cast<size_t>(y)) * width;
    if (mean_image_ != nullptr) {
      const float* mean = mean_image_->data() + row;
      const float factor = factor_[static_cast<size_t>(k)];
      normalise_row<Channels>(pixel, static_cast<int>(width), mirrored, floats + row,
                              [=](uint8_t p, int x) { return (static_cast<float>(p) - mean[x]) * factor; });
    } else {
      const float* table = &table_[size_t{256} * static_cast<size_t>(k)];
      normalise_row<Channels>(pixel, static_cast<int>(width), mirrored, floats + row,
                              [=](uint8_t p, int) { return table[p]; });
    }
  }
}

void Normalisation::apply_plain(const uint8_t* pixels, int64_t first, int64_t count, float* floats) const {
  if (image_[0] == 1) return normalise_gray(pixels, count, mean_[0], factor_[0], floats + first);
  const int64_t plane = image_[1] * image_[2];
  float* const red = floats + first;
  normalise_colors(pixels, count, mean_.data(), factor_.data(), {red, red + plane, red + 2 * plane});
}

void Normalisation::apply_row(const uint8_t* pixels, int64_t y, bool mirrored, std::span<float> floats) const {
  if (is_plain()) {
    const int64_t width = image_[2], plane = image_[1] * width;
    apply_plain(pixels, y * width, width, floats.data());
    for (int64_t k = 0; mirrored && k < image_[0]; k++)
      reverse_rows(&floats[static_cast<size_t>(k * plane + y * width)], 1, width);
    return;
  }
  switch (image_[0]) {
    case 1: return apply_row<1>(pixels, y, mirrored, floats.data());
    case 3: return apply_row<3>(pixels, y, mirrored, floats.data());
    default: return apply_row<4>(pixels, y, mirrored, floats.data());
  }
}

void Normalisation::apply(std::span<const uint8_t> pixels, std::span<const uint8_t> mirrored,
                          std::span<float> floats) const {
  const auto each = static_cast<size_t>(element_count(image_));
  const auto row_bytes = static_cast<size_t>(image_[0] * image_[2]);
  for (size_t i = 0; i < mirrored.size(); i++) {
    const std::span<float> of_image = floats.subspan(i * each, each);
    if (is_plain()) {
      apply_plain(&pixels[i * each], 0, image_[1] * image_[2], of_image.data());
      if (mirrored[i] != 0) reverse_rows(of_image.data(), image_[0] * image_[1], image_[2]);
      continue;
    }
    for (int64_t y = 0; y < image_[1]; y++) {
      apply_row(&pixels[i * each + static_cast<size_t>(y) * row_bytes], y, mirrored[i] != 0, of_image);
    }
  }
}

}  // namespace dtrain
