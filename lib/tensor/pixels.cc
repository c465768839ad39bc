#include "tensor/pixels.h"

#include "base/error.h"

namespace dtrain {

Normalisation::Normalisation(Shape image, std::vector<float> mean, std::vector<float> factor,
                             std::shared_ptr<const std::vector<float>> mean_image)
    : image_(std::move(image)), mean_(std::move(mean)), factor_(std::move(factor)), mean_image_(std::move(mean_image)) {
  const auto channels = static_cast<size_t>(image_[0]);
  DT_CHECK(channels == 1 || channels == 3 || channels == 4, "images of shape {} must have 1, 3 or 4 channels",
           to_string(image_));
  DT_CHECK(mean_.size() == channels && factor_.size() == channels, "mean and factor need {} values", channels);
  DT_CHECK(mean_image_ == nullptr || mean_image_->size() == static_cast<size_t>(element_count(image_)),
           "the mean image has {} numbers, the images have shape {}", mean_image_->size(), to_string(image_));
  for (size_t k = 0; k < channels; k++) {
    for (int p = 0; p < 256; p++) table_.push_back((static_cast<float>(p) - mean_[k]) * factor_[k]);
  }
}

namespace {

// Converts one row of one channel with number(pixel, x). Pixels are `Channels` bytes apart.
template <int Channels, class Number>
void normalise_row(const uint8_t* pixel, int width, bool mirrored, float* out, const Number& number) {
  if (mirrored) {
    for (int x = 0; x < width; x++) out[width - 1 - x] = number(pixel[ptrdiff_t{Channels} * x], x);
  } else {
    for (int x = 0; x < width; x++) out[x] = number(pixel[ptrdiff_t{Channels} * x], x);
  }
}

// The byte of a pixel that becomes channel k: blue, green, red become red, green, blue; alpha stays last.
int source_channel(int k, int channels) {
  return channels >= 3 && k < 3 ? 2 - k : k;
}

}  // namespace

template <int Channels>
void Normalisation::apply_rows(const uint8_t* pixels, size_t row_bytes, bool mirrored, float* numbers) const {
  const int height = static_cast<int>(image_[1]), width = static_cast<int>(image_[2]);
  for (int k = 0; k < Channels; k++) {
    const float* table = &table_[size_t{256} * k];
    const float factor = factor_[k];
    for (int y = 0; y < height; y++) {
      const uint8_t* pixel = pixels + static_cast<size_t>(y) * row_bytes + source_channel(k, Channels);
      const size_t row = (static_cast<size_t>(k) * height + y) * width;
      if (mean_image_ != nullptr) {
        const float* mean = mean_image_->data() + row;
        normalise_row<Channels>(pixel, width, mirrored, numbers + row,
                                [=](uint8_t p, int x) { return (static_cast<float>(p) - mean[x]) * factor; });
      } else {
        normalise_row<Channels>(pixel, width, mirrored, numbers + row, [=](uint8_t p, int) { return table[p]; });
      }
    }
  }
}

void Normalisation::apply(const uint8_t* pixels, size_t row_bytes, bool mirrored, std::span<float> numbers) const {
  switch (image_[0]) {
    case 1: return apply_rows<1>(pixels, row_bytes, mirrored, numbers.data());
    case 3: return apply_rows<3>(pixels, row_bytes, mirrored, numbers.data());
    default: return apply_rows<4>(pixels, row_bytes, mirrored, numbers.data());
  }
}

void Normalisation::apply(std::span<const uint8_t> pixels, std::span<const uint8_t> mirrored,
                          std::span<float> numbers) const {
  const auto each = static_cast<size_t>(element_count(image_));
  const auto row_bytes = static_cast<size_t>(image_[0] * image_[2]);
  for (size_t i = 0; i < mirrored.size(); i++) {
    apply(&pixels[i * each], row_bytes, mirrored[i] != 0, numbers.subspan(i * each, each));
  }
}

}  // namespace dtrain
