// What a picture file says of itself in its first bytes, so that its size is known before a decoder takes memory for
// it. JPEG is not here: its decoder reads its header itself (jpeg.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "data/recordio.h"

namespace dtrain::data {

// A larger picture is refused before it is decoded: 8192 x 8192. Decoding takes up to ten bytes a pixel.
constexpr int64_t kPicturePixelsMax = int64_t{1} << 26;

struct PictureHeader {
  std::string_view format;  // "PNG", for messages
  int64_t height = 0, width = 0;
  int bits = 8;  // of a channel
};

// Of PNG, BMP, WebP and PNM files. Code::kData: the header is cut or makes no sense, or the file is of another format;
// those whose size cannot be told without decoding them (TIFF, JPEG 2000 and others) are named.
Result<PictureHeader> read_picture_header(Bytes file);

// Code::kData, naming the size and the limit, if there are no pixels or more than kPicturePixelsMax.
Result<> check_picture_size(std::string_view format, int64_t height, int64_t width);

}  // namespace dtrain::data
