// Reads the size of an image from the first bytes of its file, before a decoder takes memory for it. JPEG is not here,
// because its decoder reads the header itself (jpeg.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"

namespace dtrain::images {

// Larger images are refused before they are decoded: 8192 x 8192.
constexpr int64_t kImagePixelsMax = int64_t{1} << 26;
// The memory for the pixels of one image and for what its decoder keeps beside them.
constexpr int64_t kDecodingBytesMax = int64_t{224} << 20;

struct ImageHeader {
  std::string_view format;  // "PNG", for messages
  int64_t height = 0, width = 0;
  int bits = 8;  // per channel
};

// Reads the header of a raw image (raw_image.h) or of a PNG file. Code::kData: the header is cut or invalid, or the
// file has another format. The error names the formats that OpenCV might decode (TIFF, BMP, WebP and others): MXNet's
// data sets need none of them, and each decoder is one more that a hostile file can attack.
Result<ImageHeader> read_image_header(Bytes file);

// The name of a format of images that is not read, by the first bytes; empty if it is none of them.
std::string_view unread_format(Bytes file);

// Whether the file is a PNG of which a chunk is longer than the rest of the file. libpng takes memory for a chunk
// before it reads it, up to 2 GiB.
bool has_cut_png_chunk(Bytes file);

// Code::kData, with the size and the limit, if there are no pixels or more than kImagePixelsMax.
Result<> check_image_size(std::string_view format, int64_t height, int64_t width);
// Code::kData, with the limit, if decoding takes more than kDecodingBytesMax.
Result<> check_decoding_bytes(std::string_view format, int64_t bytes);

}  // namespace dtrain::images
