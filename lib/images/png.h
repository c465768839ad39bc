// Decodes and encodes PNG with libpng. The bytes equal those of OpenCV's imencode. The pixels equal those of its
// imdecode for a file without color space chunks (gAMA, sRGB and others), which are ignored here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/error.h"
#include "images/image.h"

namespace dtrain::images {

// The layout of a PNG's pixels in memory: row by row, channels innermost, as in Image. Channels of 16 bits are
// uint16_t.
struct PngLayout {
  int height = 0, width = 0;
  int channels = 0;  // number of channels: 1, 3 or 4
  int bits = 8;      // bits per channel: 8 or 16
  [[nodiscard]] size_t row_bytes() const { return static_cast<size_t>(width) * channels * (bits / 8); }
};

enum class PngColors {
  kGray,      // 1 channel of 8 bits
  kColor,     // 3 channels of 8 bits
  kAsStored,  // 1, 3 or 4 channels of the file's 8 or 16 bits; palettes become colors, transparent ones color and alpha
};

// Decodes a PNG. `memory` is called once, with the layout, and must return the address of the first row. The image is
// not turned. Code::kData, with libpng's reason, if the file is damaged. The size of the image is not limited here, but
// in image_header.h.
Result<> decode_png(Bytes file, PngColors colors, const std::function<uint8_t*(const PngLayout&)>& memory);

// Encodes a PNG. `level`: compression level, 0 to 9; above 9 means 3, as for MXNet's im2rec. Code::kData if PNG cannot
// represent the image.
Result<std::vector<uint8_t>> encode_png(const uint8_t* pixels, const PngLayout& layout, int level);

}  // namespace dtrain::images
