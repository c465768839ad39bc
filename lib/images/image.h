// Images in memory, and functions to decode, resize and encode them.
//
// Pixels are uint8, row by row, channels innermost: 1 (gray), 3 (blue, green, red) or 4 (blue, green, red, alpha), as
// in OpenCV and MXNet's augmenters.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/random.h"

namespace dtrain::images {

struct ImageSize {
  int64_t height, width;
  bool operator==(const ImageSize&) const = default;
};

// An image object that is reused keeps its memory.
struct Image {
  int height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;

  void resize(int new_height, int new_width, int new_channels) {
    height = new_height;
    width = new_width;
    channels = new_channels;
    pixels.resize(static_cast<size_t>(height) * width * channels);
  }
  [[nodiscard]] ImageSize size() const { return {height, width}; }
  [[nodiscard]] uint8_t* at(int y, int x) { return pixels.data() + (static_cast<size_t>(y) * width + x) * channels; }
  [[nodiscard]] const uint8_t* at(int y, int x) const {
    return pixels.data() + (static_cast<size_t>(y) * width + x) * channels;
  }
};

// A part of an image.
struct Window {
  int y = 0, x = 0;  // the window's first row and first column
  int height = 0, width = 0;
  bool operator==(const Window&) const = default;
};
inline Window whole_image(const ImageSize& size) {
  return {.height = static_cast<int>(size.height), .width = static_cast<int>(size.width)};
}

// Decodes JPEGs with libjpeg-turbo and PNGs with libpng, to the same pixels as OpenCV, and copies raw images. Used by
// one thread at a time. The size of an image is checked before memory is allocated for it.
class ImageDecoder {
 public:
  ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;
  ~ImageDecoder();

  // `channels` 1: decode to gray; 3: to color; 4: as stored, which must be 4 channels. Gray and color images are turned
  // upright according to EXIF's orientation tag (orientation.h). Code::kData with the reason. A file whose data end
  // early or do not decode is an error. Garbage between the segments of a JPEG is no error.
  Result<> decode(Bytes file, int channels, Image& out);
  // Decodes with the file's own channels: 1, 3 or 4, and does not turn the image. Also fails with Code::kData if a
  // channel has more than 8 bits.
  Result<> decode_as_stored(Bytes file, Image& out);

  // decode() in two steps, between which the size of the image is known. open() reads the header; `file` must not move
  // until read(), which may be called once. read() decodes at least the part `wanted` and returns the part that it has
  // written to `out`. For a JPEG or a raw image it decodes only the rows and columns that are needed, with the pixels
  // that decode() gives. It does not detect damage outside of the part, except if the file ends early.
  Result<ImageSize> open(Bytes file, int channels);
  Result<Window> read(const Window& wanted, Image& out);

 private:
  Result<Window> read_stored(const Window& wanted, Image& out);

  struct State;
  std::unique_ptr<State> state_;
};

// The interpolation methods for resizing: OpenCV's methods with OpenCV's numbers, and two values that select one of
// them.
enum class Interpolation { kNearest, kBilinear, kCubic, kArea, kLanczos4, kAuto = 9, kRandom };
// The method for resizing `from` to `to`. kAuto: cubic if both edges grow, area if both shrink, otherwise bilinear.
// kRandom: one of OpenCV's five, drawn at random.
Interpolation choose(Interpolation method, ImageSize from, ImageSize to, RandomStream& random);

// Resizes like cv::resize; `method` must be one of OpenCV's. Code::kData if the result would have no pixels or too
// many.
Result<> resize_image(const Image& in, int64_t height, int64_t width, Image& out,
                      Interpolation method = Interpolation::kBilinear);
// The size with the same proportions whose shorter edge is `edge`. The longer edge is rounded down.
ImageSize size_of_shorter_edge(ImageSize size, int64_t edge);
// Values of `resize`, the resize that precedes all other steps: either the length of the shorter edge, or one of these
// constants.
constexpr int kKeepSize = 0;
// Fits the image to the crop so that the crop shows nearly all of it. If both edges are longer than the crop's edges
// times 256 / 224 (rounded), the image is reduced until one of them is not. If the crop does not fit into the image, it
// is enlarged until it does.
constexpr int kFitCrop = -1;
struct FirstResize {
  ImageSize size;
  Interpolation method;  // how to interpolate; choose() selects the method if this is kAuto or kRandom
};
// How `resize` changes an image of size `from`; the result has the same size if nothing changes. With kFitCrop, a
// reduction averages areas if `method` is bilinear, because its factor is often large.
FirstResize first_resize(int resize, Interpolation method, const ImageSize& from, const ImageSize& crop);
// The central square: the rows or columns [m, m + short), where m = (long - short) / 2, rounded down.
Window central_square(const ImageSize& size);
Image central_square(const Image& image);
// Copies the window `wanted` of a larger image to `out`. `image` holds only the window `part` of that larger image, and
// `wanted` must lie within `part`. Both windows are in coordinates of the larger image.
void cut(const Image& image, const Window& part, const Window& wanted, Image& out);
// `extension` is ".jpg" (quality 0 .. 100) or ".png" (quality is the compression level; above 9 means 3).
Result<std::vector<uint8_t>> encode_image(const Image& image, const std::string& extension, int quality);

// Turns OpenCV's own threads off, because images are distributed over dtrain's threads. Applies to the whole process;
// call it before its threads start.
void use_own_threads_only();

}  // namespace dtrain::images
