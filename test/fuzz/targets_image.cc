#include <algorithm>

#include "base/crc32c.h"
#include "base/random.h"
#include "fuzz/refusal.h"
#include "fuzz/targets.h"
#include "images/image.h"
#include "images/libjpeg_turbo.h"

namespace dtrain::fuzz {

using namespace dtrain::data;
using namespace dtrain::images;

namespace {

// Larger images are only opened. Up to a hundred scans of each are decoded several times for one input, which the
// sanitizers slow down; the memory that large images may take is tested in test/data/hostile_test.cc.
constexpr int64_t kFuzzedPixelsMax = 1 << 17;

// A part of the image that depends on nothing but the bytes, so that an input fails again.
Window drawn_window(std::string_view bytes, const ImageSize& size) {
  RandomStream random(crc32c(std::as_bytes(std::span(bytes))), Use::kTest);
  Window window;
  window.height = 1 + static_cast<int>(random.below(size.height));
  window.width = 1 + static_cast<int>(random.below(size.width));
  window.y = static_cast<int>(random.below(size.height - window.height + 1));
  window.x = static_cast<int>(random.below(size.width - window.width + 1));
  return window;
}

void check_part(const Image& whole, const Image& image, const Window& part, const Window& wanted) {
  DT_CHECK(image.height == part.height && image.width == part.width && image.channels == whole.channels &&
               image.pixels.size() == size_t{1} * image.height * image.width * image.channels,
           "the part has another size than its pixels");
  DT_CHECK(part.y >= 0 && part.x >= 0 && part.y + part.height <= whole.height && part.x + part.width <= whole.width,
           "the part is not in the image");
  DT_CHECK(part.y <= wanted.y && part.x <= wanted.x && part.y + part.height >= wanted.y + wanted.height &&
               part.x + part.width >= wanted.x + wanted.width,
           "the part is smaller than the window");
  for (int y = wanted.y; y < wanted.y + wanted.height; y++) {
    const uint8_t* const row = whole.at(y, wanted.x);
    const auto bytes = static_cast<ptrdiff_t>(wanted.width) * whole.channels;
    DT_CHECK(std::equal(row, row + bytes, image.at(y - part.y, wanted.x - part.x)),
             "row {} of the window at {}, {} of {} x {} differs from the whole image", y, wanted.y, wanted.x,
             wanted.height, wanted.width);
  }
}

// A decoder that has read another image.
ImageDecoder used_decoder() {
  static const std::vector<std::string> seeds = image_seeds();
  ImageDecoder decoder;
  Image image;
  const Result<> decoded = decoder.decode(as_bytes(seeds[1]), 3, image);
  DT_CHECK(decoded, "{}", decoded.error().text());
  return decoder;
}

// dtrain's own decoder of baseline JPEGs gives libjpeg-turbo's pixels, whole and in a part, or refuses.
void compare_with_libjpeg_turbo(std::string_view bytes, int channels) {
  const Bytes file = as_bytes(bytes);
  test::LibjpegTurbo turbo(file);
  const std::optional<BaselineHeader> header = turbo.header();
  if (!header) return;
  const ImageSize size{header->height, header->width};
  BaselineJpeg decoder;
  Image whole, part;
  const Window wanted = drawn_window(bytes, size);
  const bool is_decoded = decoder.read(*header, whole_image(size), channels, whole);
  const bool is_part_decoded = decoder.read(*header, wanted, channels, part);
  const std::optional<Image> expected = turbo.pixels(channels);
  if (!is_decoded) return;
  DT_CHECK(expected, "libjpeg-turbo does not decode the image");
  DT_CHECK(whole.pixels == expected->pixels, "the pixels are not those of libjpeg-turbo");
  DT_CHECK(is_part_decoded, "a part of the image is refused");
  check_part(*expected, part, wanted, wanted);
}

// Decodes the whole image, and a part of it with another decoder.
bool decode_and_compare(std::string_view bytes, int channels) {
  const Bytes file = as_bytes(bytes);
  ImageDecoder decoder;
  const Result<ImageSize> size = decoder.open(file, channels);
  if (!size) return refused(size.error());
  DT_CHECK(size->height >= 1 && size->width >= 1, "the image has {} x {} pixels", size->height, size->width);
  if (size->height * size->width > kFuzzedPixelsMax) return false;
  Image whole, part;
  if (const Result<> decoded = decoder.decode(file, channels, whole); !decoded) return refused(decoded.error());
  DT_CHECK(whole.height == size->height && whole.width == size->width && whole.channels == channels,
           "the image has {} x {} x {} pixels, and its header says {} x {}", whole.height, whole.width, whole.channels,
           size->height, size->width);
  const Window wanted = drawn_window(bytes, *size);
  ImageDecoder other = used_decoder();
  const Result<ImageSize> again = other.open(file, channels);
  DT_CHECK(again && *again == *size, "the image is opened with another size");
  const Result<Window> read = other.read(wanted, part);
  DT_CHECK(read, "a window is refused: {}", read.error().text());
  check_part(whole, part, *read, wanted);
  return true;
}

}  // namespace

bool read_image_bytes(std::string_view bytes) {
  bool valid = false;
  bool small = false;
  for (const int channels : {1, 3, 4}) {
    valid = decode_and_compare(bytes, channels) || valid;
    const Result<ImageSize> size = ImageDecoder().open(as_bytes(bytes), channels);
    small = size && size->height * size->width <= kFuzzedPixelsMax;
  }
  if (!small) return valid;
  for (const int channels : {1, 3}) compare_with_libjpeg_turbo(bytes, channels);
  Image stored;
  if (const Result<> decoded = ImageDecoder().decode_as_stored(as_bytes(bytes), stored); !decoded) {
    refused(decoded.error());
  }
  return valid;
}

}  // namespace dtrain::fuzz
