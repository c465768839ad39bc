// Pictures in memory, and the way from and to encoded files.
//
// Pixels are uint8, row by row, channels innermost: 1 (gray), 3 (blue, green, red) or 4 (blue, green, red, alpha), the
// order of OpenCV and so of MXNet's augmenters. The orientation tag of EXIF is ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "data/recordio.h"

namespace dtrain::data {

// The memory is kept when an image is used again.
struct Image {
  int height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;

  void resize(int new_height, int new_width, int new_channels) {
    height = new_height;
    width = new_width;
    channels = new_channels;
    pixels.resize(static_cast<size_t>(height) * width * channels);
  }
  [[nodiscard]] uint8_t* at(int y, int x) { return pixels.data() + (static_cast<size_t>(y) * width + x) * channels; }
  [[nodiscard]] const uint8_t* at(int y, int x) const {
    return pixels.data() + (static_cast<size_t>(y) * width + x) * channels;
  }
};

// Decodes JPEGs with libjpeg-turbo, to the same pixels as OpenCV, and other formats (picture_header.h) with OpenCV. One
// thread at a time. A picture's size is known, and limited, before memory is taken for it.
class ImageDecoder {
 public:
  ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;
  ~ImageDecoder();

  // 1: to gray. 3: to colour. 4: as stored, which must then be 4 channels. Code::kData with the reason; a file whose
  // data end early or do not decode is an error, garbage between a JPEG's segments is not.
  Result<> decode(Bytes file, int channels, Image& out);
  // With the channels that it has, 1, 3 or 4. Code::kData also if these have more than 8 bits.
  Result<> decode_as_stored(Bytes file, Image& out);

 private:
  class Jpeg;
  std::unique_ptr<Jpeg> jpeg_;
};

// OpenCV's imdecode with its flag: 1 colour, 0 gray, -1 as stored (then 8 bits a channel, else Code::kData). Takes the
// memory that the file asks for: ImageDecoder looks at its header first.
Result<> decode_with_opencv(Bytes file, int color, Image& out);

// How resizing interpolates: OpenCV's methods by OpenCV's numbers, and two values that choose one of them.
enum class Interpolation { kNearest, kBilinear, kCubic, kArea, kLanczos4, kAuto = 9, kRandom };
// The method for making `from` height x width. kAuto: cubic if both edges grow, area if both shrink, else bilinear.
// kRandom: one of OpenCV's five, drawn.
Interpolation choose(Interpolation method, const Image& from, int64_t height, int64_t width, RandomStream& random);

// As cv::resize; `method` is one of OpenCV's. Code::kData if the result had no or too many pixels.
Result<> resize_image(const Image& in, int64_t height, int64_t width, Image& out,
                      Interpolation method = Interpolation::kBilinear);
struct ImageSize {
  int64_t height, width;
};
// The size with the same proportions whose shorter edge is `edge`. The longer edge is rounded down.
ImageSize size_of_shorter_edge(const Image& image, int64_t edge);
// To that size, bilinear, enlarging too. Code::kData as resize_image.
Result<Image> resize_shorter_edge(Image image, int edge);
// The central square: rows or columns [m, m + short), m = (long - short) div 2.
Image central_square(const Image& image);
// `extension` is ".jpg" (quality 0 .. 100) or ".png" (quality is the level of compression; above 9 it is 3).
Result<std::vector<uint8_t>> encode_image(const Image& image, const std::string& extension, int quality);

// OpenCV's own threads off: images are spread over ours. For the whole process, before its threads start.
void use_own_threads_only();

}  // namespace dtrain::data
