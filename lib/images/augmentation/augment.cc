#include "images/augmentation/augment.h"

#include <cstring>

#include "images/augmentation/color.h"

namespace dtrain::images {

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

Result<> Augmenter::apply(OpenImage& image, RandomStream& random, Scratch& scratch, std::span<float> out) const {
  DT_TRY(const Augmentation augmentation, draw(image, random));
  const bool mirrored = augmentation.mirrored || options_.mirror;
  DT_TRY_VOID(make_rows(augmentation, image, scratch,
                        [&](const uint8_t* row, int y) { normalisation_->apply_row(row, y, mirrored, out); }));
  if (options_.distortion.changes_floats()) change_floats(augmentation, out);
  return {};
}

Result<bool> Augmenter::crop(OpenImage& image, RandomStream& random, Scratch& scratch, std::span<uint8_t> out) const {
  DT_CHECK(normalisation() != nullptr, "random contrast and illumination can be applied only to normalized floats");
  DT_TRY(const Augmentation augmentation, draw(image, random));
  const size_t row_bytes = out.size() / static_cast<size_t>(height_);
  DT_TRY_VOID(make_rows(augmentation, image, scratch, [&](const uint8_t* row, int y) {
    std::memcpy(&out[static_cast<size_t>(y) * row_bytes], row, row_bytes);
  }));
  return augmentation.mirrored || options_.mirror;
}

Result<Augmentation> Augmenter::draw(const OpenImage& image, RandomStream& random) const {
  if (image.channels() != options_.image[0]) {
    return fail(Code::kData, "the image has {} channels, but {} are needed", image.channels(), options_.image[0]);
  }
  return draw_augmentation(options_.distortion, image.size(), {height_, width_}, random);
}

template <class Take>
Result<> Augmenter::make_rows(const Augmentation& augmentation, OpenImage& image, Scratch& scratch,
                              const Take& take) const {
  DT_TRY(CropRows rows, make_crop(augmentation.geometry, image, scratch.geometry));
  if (augmentation.color.empty()) {
    for (int y = 0; y < height_; y++) take(rows.row(y), y);
    return {};
  }
  Image& crop = scratch.crop;
  crop.resize(height_, width_, image.channels());
  const size_t row_bytes = static_cast<size_t>(width_) * static_cast<size_t>(crop.channels);
  for (int y = 0; y < height_; y++) std::memcpy(crop.at(y, 0), rows.row(y), row_bytes);
  {
    const StageTimer timer(scratch.stages == nullptr ? nullptr : &scratch.stages->color);
    change_color(augmentation.color, crop);
  }
  for (int y = 0; y < height_; y++) take(crop.at(y, 0), y);
  return {};
}

// Computes (p - mean) * factor * contrast + light * factor for each pixel value p.
void Augmenter::change_floats(const Augmentation& augmentation, std::span<float> out) const {
  const size_t each = out.size() / normalisation_->factor().size();
  for (size_t k = 0; k < normalisation_->factor().size(); k++) {
    const float offset = augmentation.light * normalisation_->factor()[k];
    for (float& number : out.subspan(k * each, each)) number = number * augmentation.contrast + offset;
  }
}

}  // namespace dtrain::images
