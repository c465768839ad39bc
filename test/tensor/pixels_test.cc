#include "tensor/pixels.h"

#include <cstring>
#include <memory>
#include <numeric>

#include "support/catch.h"

using namespace dtrain;

namespace {

struct Images {
  Shape shape;
  std::vector<uint8_t> pixels, mirrored;
};

// Two images, of which the second is mirrored. Every value of a byte occurs.
Images two_images(Shape shape) {
  Images images{.shape = shape,
                .pixels = std::vector<uint8_t>(2 * static_cast<size_t>(element_count(shape))),
                .mirrored = {0, 1}};
  for (size_t i = 0; i < images.pixels.size(); i++) images.pixels[i] = static_cast<uint8_t>(i * 37);
  return images;
}

// number[k][y][x] as the header defines it, for every element by itself.
std::vector<float> by_formula(const Images& images, const std::vector<float>& mean, const std::vector<float>& factor,
                              const std::vector<float>* mean_image) {
  const int64_t channels = images.shape[0], height = images.shape[1], width = images.shape[2];
  std::vector<float> numbers;
  for (size_t n = 0; n < images.mirrored.size(); n++) {
    for (int64_t k = 0; k < channels; k++) {
      const int64_t from = channels >= 3 && k < 3 ? 2 - k : k;
      for (int64_t i = 0; i < height * width; i++) {
        const int64_t y = i / width, x = images.mirrored[n] != 0 ? width - 1 - i % width : i % width;
        const int64_t pixel = (static_cast<int64_t>(n) * height + y) * width + x;
        const auto channel = static_cast<size_t>(k);
        const float minus =
            mean_image == nullptr ? mean[channel] : (*mean_image)[static_cast<size_t>((k * height + y) * width + x)];
        numbers.push_back((static_cast<float>(images.pixels[static_cast<size_t>(pixel * channels + from)]) - minus) *
                          factor[channel]);
      }
    }
  }
  return numbers;
}

}  // namespace

// Widths that no vector divides. The conversion of whole images, of single rows and by the formula must give the same
// bits, because GPUs, compute threads and decoders convert in different pieces.
TEST_CASE("pixels become the same floats in whole images, in rows and by the formula", "[tensor]") {
  for (const Shape& shape : {Shape{1, 28, 28}, Shape{1, 3, 45}, Shape{3, 7, 33}, Shape{3, 1, 1}, Shape{4, 5, 19}}) {
    for (const bool with_mean_image : {false, true}) {
      INFO(to_string(shape) << (with_mean_image ? " with a mean image" : ""));
      const Images images = two_images(shape);
      const auto elements = static_cast<size_t>(element_count(shape));
      std::vector<float> mean, factor;
      for (int64_t k = 0; k < shape[0]; k++)
        mean.push_back(123.68f - 7.1f * static_cast<float>(k)),
            factor.push_back(0.017f + 0.01f * static_cast<float>(k));
      std::vector<float> of_pixels(elements);
      std::iota(of_pixels.begin(), of_pixels.end(), 0.3f);
      const auto mean_image = with_mean_image ? std::make_shared<const std::vector<float>>(of_pixels) : nullptr;
      const Normalisation normalisation(shape, mean, factor, mean_image);
      const std::vector<float> expected = by_formula(images, mean, factor, mean_image.get());
      std::vector<float> whole(2 * elements), rows(2 * elements);
      normalisation.apply(images.pixels, images.mirrored, whole);
      CHECK(std::memcmp(whole.data(), expected.data(), whole.size() * sizeof(float)) == 0);
      const auto row_bytes = static_cast<size_t>(shape[0] * shape[2]);
      for (size_t n = 0; n < 2; n++) {
        for (int64_t y = 0; y < shape[1]; y++) {
          normalisation.apply_row(&images.pixels[n * elements + static_cast<size_t>(y) * row_bytes], y,
                                  images.mirrored[n] != 0, std::span(rows).subspan(n * elements, elements));
        }
      }
      CHECK(std::memcmp(rows.data(), expected.data(), rows.size() * sizeof(float)) == 0);
    }
  }
}
