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

Augmenter::Augmenter(AugmentOptions options)
    : options_(std::move(options)),
      height_(static_cast<int>(options_.image[1])),
      width_(static_cast<int>(options_.image[2])) {
  const auto channels = static_cast<size_t>(options_.image[0]);
  DT_CHECK(options_.mean.size() == channels && options_.std.size() == channels, "mean and std need {} values",
           channels);
  for (size_t k = 0; k < channels; k++) {
    factor_.push_back(options_.scale / options_.std[k]);
    for (int p = 0; p < 256; p++) table_.push_back((static_cast<float>(p) - options_.mean[k]) * factor_[k]);
  }
}

Result<> Augmenter::apply(const Image& decoded, RandomStream& random, Scratch& scratch, std::span<float> out) const {
  if (decoded.channels != options_.image[0]) {
    return fail(Code::kData, "an image of {} channels where {} are needed", decoded.channels, options_.image[0]);
  }
  DT_TRY(const Image* image, prepare(decoded, scratch));
  normalise(*image, place(*image, random), out);
  return {};
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

namespace {

// One row of one channel: pixels `stride` bytes apart become numbers by a look-up.
void normalise_row(const uint8_t* pixel, int stride, const float* table, int width, bool mirrored, float* out) {
  if (mirrored) {
    for (int x = 0; x < width; x++) out[width - 1 - x] = table[pixel[static_cast<ptrdiff_t>(x) * stride]];
  } else {
    for (int x = 0; x < width; x++) out[x] = table[pixel[static_cast<ptrdiff_t>(x) * stride]];
  }
}

void normalise_row(const uint8_t* pixel, int stride, const float* mean, float factor, int width, bool mirrored,
                   float* out) {
  for (int x = 0; x < width; x++) {
    const float value = (static_cast<float>(pixel[static_cast<ptrdiff_t>(x) * stride]) - mean[x]) * factor;
    out[mirrored ? width - 1 - x : x] = value;
  }
}

// Which byte of a pixel is the k-th channel of the result: blue, green, red become red, green, blue; alpha stays last.
int source_channel(int k, int channels) {
  return channels >= 3 && k < 3 ? 2 - k : k;
}

}  // namespace

void Augmenter::normalise(const Image& image, Placement at, std::span<float> out) const {
  for (int k = 0; k < image.channels; k++) {
    const int source = source_channel(k, image.channels);
    for (int y = 0; y < height_; y++) {
      const uint8_t* pixel = image.at(at.y + y, at.x) + source;
      const size_t row = (static_cast<size_t>(k) * height_ + y) * width_;
      if (options_.mean_image != nullptr) {
        normalise_row(pixel, image.channels, options_.mean_image->data() + row, factor_[k], width_, at.mirrored,
                      &out[row]);
      } else {
        normalise_row(pixel, image.channels, &table_[size_t{256} * k], width_, at.mirrored, &out[row]);
      }
    }
  }
}

}  // namespace dtrain::data
