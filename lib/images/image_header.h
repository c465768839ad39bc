// Reads the size of an image from the first bytes of its file, before a decoder allocates memory for it. JPEG is not
// handled here, because its decoder reads the header itself (jpeg.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"

namespace dtrain::images {

// The limit on the pixels of an image: 8192 x 8192. Larger images are refused before they are decoded.
constexpr int64_t kImagePixelsMax = int64_t{1} << 26;
// The limit on memory for the pixels of one image and for its decoder's other data.
constexpr int64_t kDecodingBytesMax = int64_t{224} << 20;

struct ImageHeader {
  std::string_view format;  // name of the format, for messages: "PNG"
  int64_t height = 0, width = 0;
  int bits = 8;  // number of bits per channel
};

// Reads the header of a raw image (raw_image.h) or of a PNG file. Code::kData: the header is truncated or invalid, or
// the file has another format. The error names formats that OpenCV could decode (TIFF, BMP, WebP and others) but that
// are not supported: MXNet's data sets need none of them, and each further decoder could be attacked with a malicious
// file.
Result<ImageHeader> read_image_header(Bytes file);

// The name of an image format that is recognized by its first bytes but not supported; empty if the file has no such
// format.
std::string_view unread_format(Bytes file);

// True if the file is a PNG with a chunk that is longer than the rest of the file. libpng allocates memory for a chunk
// before it reads it, up to 2 GiB.
bool has_cut_png_chunk(Bytes file);

// Code::kData, with the size and the limit, if there are no pixels or more than kImagePixelsMax.
Result<> check_image_size(std::string_view format, int64_t height, int64_t width);
// Code::kData, with the limit, if decoding takes more than kDecodingBytesMax.
Result<> check_decoding_bytes(std::string_view format, int64_t bytes);

}  // namespace dtrain::images
