#include "data/augment.h"

#include <algorithm>
#include <cstring>

namespace dtrain::data {

void pad_image(const Image& in, int pad, int fill, Image& out) {
  out.resize(in.height + 2 * pad, in.width + 2 * pad, in.channels);
  std::memset(out.pixels.data(), fill, out.pixels.size());
  const size_t row_bytes = static_cast<size_t>(in.width) * in.channels;
  for (int y = 0; y < in.height; y++) std::memcpy(out.at(y + pad, pad), in.at(y, 0), row_bytes);
}

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
  DT_TRY(const Crop crop, find_crop(decoded, random, scratch));
  const auto row_bytes = static_cast<size_t>(crop.image->width) * crop.image->channels;
  normalisation_->apply(crop.image->at(crop.at.y, crop.at.x), row_bytes, crop.at.mirrored, out);
  return {};
}

Result<Placement> Augmenter::crop(const Image& decoded, RandomStream& random, Scratch& scratch,
                                  std::span<uint8_t> out) const {
  DT_TRY(const Crop crop, find_crop(decoded, random, scratch));
  const auto row_bytes = static_cast<size_t>(width_) * crop.image->channels;
  for (int y = 0; y < height_; y++) {
    std::memcpy(&out[y * row_bytes], crop.image->at(crop.at.y + y, crop.at.x), row_bytes);
  }
  return crop.at;
}

Result<Augmenter::Crop> Augmenter::find_crop(const Image& decoded, RandomStream& random, Scratch& scratch) const {
  if (decoded.channels != options_.image[0]) {
    return fail(Code::kData, "an image of {} channels where {} are needed", decoded.channels, options_.image[0]);
  }
  DT_TRY(const Image* image, prepare(decoded, scratch));
  return Crop{image, place(*image, random)};
}

namespace {

// The other edge when one grows from `from` to `to`. The arithmetic is float's on purpose: that is how MXNet rounds.
int64_t scaled_edge(int from, int to, int other) {
  return static_cast<int64_t>(static_cast<float>(to) / static_cast<float>(from) * static_cast<float>(other));
}

Result<> enlarge(const Image& in, int64_t height, int64_t width, Image& out) {
  if (height * width > ImageDecoder::kPixelsMax) {
    return fail(Code::kData, "an image of {} x {} would have to be enlarged to {} x {}", in.height, in.width, height,
                width);
  }
  resize_image(in, static_cast<int>(height), static_cast<int>(width), out);
  return {};
}

}  // namespace

Result<const Image*> Augmenter::prepare(const Image& decoded, Scratch& scratch) const {
  const Image* image = &decoded;
  if (options_.pad > 0) {
    pad_image(*image, options_.pad, options_.fill_value, scratch.padded);
    image = &scratch.padded;
  }
  if (image->height < height_) {
    const int64_t columns = std::max<int64_t>(scaled_edge(image->height, height_, image->width), 1);
    DT_TRY_VOID(enlarge(*image, height_, columns, scratch.enlarged));
    image = &scratch.enlarged;
  }
  if (image->width < width_) {
    // The padded picture is not needed any more once there is an enlarged one.
    Image& target = image == &scratch.enlarged ? scratch.padded : scratch.enlarged;
    const int64_t rows = scaled_edge(image->width, width_, image->height);
    DT_TRY_VOID(enlarge(*image, std::max<int64_t>(rows, height_), width_, target));
    image = &target;
  }
  return image;
}

Placement Augmenter::place(const Image& image, RandomStream& random) const {
  const int spare_y = image.height - height_;
  const int spare_x = image.width - width_;
  Placement at{spare_y / 2, spare_x / 2, options_.mirror};
  if (options_.random_crop) {
    at.y = static_cast<int>(random.below(spare_y + 1));
    at.x = static_cast<int>(random.below(spare_x + 1));
  }
  if (options_.random_mirror && random.below(2) == 1) at.mirrored = true;
  return at;
}

}  // namespace dtrain::data
