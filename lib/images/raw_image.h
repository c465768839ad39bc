// An image stored as its pixels, without compression (docs/formats.md, "Raw images"): the bytes `44 54 52 57`, u16
// height, u16 width, u8 channels, three zero bytes, then the pixels as in Image.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "images/image.h"

namespace dtrain::images {

// A view into a raw image.
struct RawImage {
  static constexpr size_t kHeaderBytes = 12;
  static constexpr int kEdgeMax = 65535;
  int height = 0, width = 0, channels = 0;
  Bytes pixels;  // the pixels, as [height, width, channels]

  [[nodiscard]] const uint8_t* at(int y, int x) const {
    return pixels.data() + (static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) *
                               static_cast<size_t>(channels);
  }
};

bool is_raw_image(Bytes file);  // checks the first four bytes
// Code::kData if the header is truncated or invalid, or if the number of bytes after it differs from the number that it
// implies.
Result<RawImage> parse_raw_image(Bytes file);
// Code::kData if an edge is longer than kEdgeMax.
Result<std::vector<uint8_t>> make_raw_image(const Image& image);

// Copies a part of the image to `out`, with `channels` 1 (gray), 3 (color, without alpha) or 4. Code::kData: 4 channels
// were requested for an image without alpha.
Result<> copy_raw_image(const RawImage& image, const Window& part, int channels, Image& out);

}  // namespace dtrain::images
