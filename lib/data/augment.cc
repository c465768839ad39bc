#include "data/augment.h"

#include <cstring>

#include "data/color.h"

namespace dtrain::data {

namespace {

std::shared_ptr<const Normalisation> normalisation_of(const AugmentOptions& options) {
  const auto channels = static_cast<size_t>(options.image[0]);
  DT_CHECK(options.mean.size() == channels && options.std.size() == channels, "mean and std need {} values", channels);
  std::vector<float> factor;
  for (const float std : options.std) factor.push_back(options.scale / std);
  return std::make_shared<const Normalisation>(options.image, options.mean, std::move(factor), options.mean_image);
}

}  // namespace

Augmenter::Augmenter(AugmentOptions options)
    : options_(std::move(options)),
      height_(static_cast<int>(options_.image[1])),
      width_(static_cast<int>(options_.image[2])),
      normalisation_(normalisation_of(options_)) {}

Result<> Augmenter::apply(const Image& decoded, RandomStream& random, Scratch& scratch, std::span<float> out) const {
  DT_TRY(const Crop crop, make_crop(decoded, random, scratch));
  const auto row_bytes = static_cast<size_t>(crop.image->width) * crop.image->channels;
  normalisation_->apply(crop.image->at(crop.at.y, crop.at.x), row_bytes, crop.at.mirrored, out);
  if (options_.distortion.changes_numbers()) change_numbers(random, out);
  return {};
}

Result<Placement> Augmenter::crop(const Image& decoded, RandomStream& random, Scratch& scratch,
                                  std::span<uint8_t> out) const {
  DT_CHECK(normalisation() != nullptr, "random contrast and illumination cannot be applied to pixels");
  DT_TRY(const Crop crop, make_crop(decoded, random, scratch));
  const auto row_bytes = static_cast<size_t>(width_) * crop.image->channels;
  for (int y = 0; y < height_; y++) {
    std::memcpy(&out[y * row_bytes], crop.image->at(crop.at.y + y, crop.at.x), row_bytes);
  }
  return crop.at;
}

Result<Augmenter::Crop> Augmenter::make_crop(const Image& decoded, RandomStream& random, Scratch& scratch) const {
  if (decoded.channels != options_.image[0]) {
    return fail(Code::kData, "the image has {} channels, but {} are needed", decoded.channels, options_.image[0]);
  }
  const Distortion& distortion = options_.distortion;
  Picture picture(decoded, scratch);
  DT_TRY_VOID(transform(distortion, picture, random));
  DT_TRY(Corner corner, find_crop(distortion, height_, width_, picture, random));
  if (distortion.color.any()) {
    distort_color(distortion.color, random, cut(picture, corner, height_, width_));
    corner = {};
  }
  const bool flipped = distortion.random_mirror && random.below(2) == 1;
  return Crop{&picture.image(), {corner.y, corner.x, flipped || options_.mirror}};
}

// Computes (p - mean) * factor * c + i * factor, where c and i are drawn for this picture.
void Augmenter::change_numbers(RandomStream& random, std::span<float> out) const {
  const Distortion& distortion = options_.distortion;
  const auto contrast = static_cast<float>(1 + random.uniform(-distortion.random_contrast, distortion.random_contrast));
  const auto light =
      static_cast<float>(random.uniform(-distortion.random_illumination, distortion.random_illumination));
  const size_t each = out.size() / normalisation_->factor().size();
  for (size_t k = 0; k < normalisation_->factor().size(); k++) {
    const float offset = light * normalisation_->factor()[k];
    for (float& number : out.subspan(k * each, each)) number = number * contrast + offset;
  }
}

}  // namespace dtrain::data
