// Resizes 8-bit images bilinearly, row by row, and can compute only a part of the result. The pixels equal those of
// OpenCV's cv::resize with INTER_LINEAR: the same 11-bit weights, and the same rounding after each of the two
// directions.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "images/image.h"

namespace dtrain::images {

// An image that may be only partly in memory: pixel (y, x) is image->at(y - top, x - left). Pixels outside the part in
// memory must not be read.
struct ImageView {
  const Image* image = nullptr;
  int height = 0, width = 0;  // size of the whole image
  // Position of the part in memory, in coordinates of the whole image; negative if the whole image is itself cut from
  // `image`.
  int top = 0, left = 0;

  [[nodiscard]] const uint8_t* at(int y, int x) const { return image->at(y - top, x - left); }
};

// The source pixels for each position along one edge of the result.
struct LinearTaps {
  std::vector<int> first;  // the first of two pixels; the second is the next pixel or, at the border, the same one
  std::vector<int> second;
  std::vector<std::array<int16_t, 2>> weight;  // weights of the two pixels, in units of 1/2048
};

// Memory that is reused from image to image.
struct BilinearMemory {
  LinearTaps rows, columns;
  std::array<std::vector<int16_t>, 2> wide;  // two rows of the source, resized to the width of the result
  std::vector<uint8_t> row;
};

class BilinearRows {
 public:
  // The part of an image of size `from` that is needed to compute the part `wanted` of the image resized to `to`.
  static Window needed(const ImageSize& from, const ImageSize& to, const Window& wanted);

  // Borrows the view's image, which must contain at least the part needed(), and the memory.
  BilinearRows(const ImageView& from, const ImageSize& to, const Window& wanted, BilinearMemory& memory);

  // Row y of the wanted part, [width][channels], valid until the next call. Rows must be requested in order, each once.
  const uint8_t* row(int y);

 private:
  const int16_t* widened(int y);

  ImageView from_;
  int width_;
  BilinearMemory& memory_;
  std::array<int, 2> widened_ = {-1, -1};  // numbers of the source rows in memory_.wide
};

}  // namespace dtrain::images
