#include "data/loading/batch_images.h"

#include <algorithm>

namespace dtrain::data {
namespace {

std::string caption(std::span<const std::string> class_names, float label, int64_t record) {
  const auto number = static_cast<size_t>(label);
  const bool is_named = number < class_names.size();
  return fmt::format("{}{} #{}", label, is_named ? " " + class_names[number] : "", record);
}

// Image `row` of a batch of pixels, mirrored if the batch says so.
images::Image image_of_pixels(const Batch::Input& images, const Shape& shape, int64_t row) {
  const auto width = static_cast<int>(shape[2]), height = static_cast<int>(shape[1]);
  const auto channels = static_cast<int>(shape[0]);
  images::Image image;
  image.resize(height, width, channels);
  const size_t each = image.pixels.size();
  std::ranges::copy(images.pixels.subspan(static_cast<size_t>(row) * each, each), image.pixels.begin());
  if (images.mirrored[static_cast<size_t>(row)] == 0) return image;
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width / 2; x++) {
      std::swap_ranges(image.at(y, x), image.at(y, x) + channels, image.at(y, width - 1 - x));
    }
  }
  return image;
}

images::Image image_of_floats(const Batch::Input& images, const Shape& shape, int64_t row) {
  const auto each = static_cast<size_t>(element_count(shape));
  const std::span<const float> floats = images.floats.subspan(static_cast<size_t>(row) * each, each);
  const auto [least, most] = std::ranges::minmax(floats);
  const float factor = most > least ? 255.0f / (most - least) : 0.0f;
  const auto channels = static_cast<int>(shape[0]);
  images::Image image;
  image.resize(static_cast<int>(shape[1]), static_cast<int>(shape[2]), channels);
  const size_t plane = each / static_cast<size_t>(channels);
  for (size_t i = 0; i < plane; i++) {
    for (int k = 0; k < channels; k++) {
      // Exchanges red and blue, because the image has its channels in the order blue, green, red.
      const int source = k < 3 && channels >= 3 ? 2 - k : k;
      const float number = floats[static_cast<size_t>(source) * plane + i];
      image.pixels[i * static_cast<size_t>(channels) + static_cast<size_t>(k)] =
          static_cast<uint8_t>((number - least) * factor);
    }
  }
  return image;
}

}  // namespace

images::Image image_of(const LoadedBatch& batch, const Shape& shape, int64_t row) {
  const bool are_pixels = batch.images().floats.empty();
  return are_pixels ? image_of_pixels(batch.images(), shape, row) : image_of_floats(batch.images(), shape, row);
}

std::vector<images::SheetImage> images_of(const LoadedBatch& batch, const Shape& shape, int64_t count,
                                          std::span<const std::string> class_names) {
  const size_t labels = batch.records.empty() ? 0 : batch.labels.size() / batch.records.size();
  std::vector<images::SheetImage> images;
  for (int64_t row = 0; row < count; row++) {
    const auto i = static_cast<size_t>(row);
    images.push_back({image_of(batch, shape, row), caption(class_names, batch.labels[i * labels], batch.records[i])});
  }
  return images;
}

}  // namespace dtrain::data
