#include "images/image_facts.h"

#include <algorithm>

#include "images/image.h"
#include "images/image_header.h"
#include "images/jpeg.h"
#include "images/orientation.h"

namespace dtrain::images {
namespace {

size_t big_endian_16(Bytes bytes, size_t at) {
  return size_t{bytes[at]} << 8 | bytes[at + 1];
}

std::string jpeg_colors(uint8_t components) {
  return components == 1 ? "gray" : components == 4 ? "CMYK" : "color";
}

bool is_frame(uint8_t marker) {
  constexpr uint8_t kHuffmanTable = 0xc4, kExtension = 0xc8, kArithmeticTable = 0xcc;
  return marker >= 0xc0 && marker <= 0xcf && marker != kHuffmanTable && marker != kExtension &&
         marker != kArithmeticTable;
}

std::string frame_name(uint8_t marker) {
  switch (marker) {
    case 0xc0:
    case 0xc1: return "JPEG";
    case 0xc2: return "progressive JPEG";
    default: return "JPEG of a rare kind";  // files with arithmetic coding, lossless files and hierarchical files
  }
}

// Walks over the segments up to the frame header, which has the size.
Result<ImageFacts> jpeg_facts(Bytes file) {
  constexpr size_t kFrameBytes = 10;
  ImageFacts facts;
  for (size_t at = 2; at + 4 <= file.size();) {
    if (file[at] != 0xff || file[at + 1] == 0xff || file[at + 1] == 0) {  // fill bytes, or garbage between segments
      at++;
      continue;
    }
    const uint8_t marker = file[at + 1];
    const bool stands_alone = marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    if (stands_alone) {
      at += 2;
      continue;
    }
    // The image ends, or its pixels begin: no further segment of the header follows.
    if (marker == 0xd9 || marker == 0xda) break;
    const size_t length = big_endian_16(file, at + 2);
    const Bytes segment = file.subspan(at, std::min(length + 2, file.size() - at));
    if (is_frame(marker)) {
      if (segment.size() < kFrameBytes) break;
      facts.format = frame_name(marker);
      facts.height = static_cast<int64_t>(big_endian_16(segment, 5));
      facts.width = static_cast<int64_t>(big_endian_16(segment, 7));
      facts.colors = jpeg_colors(segment[9]);
      return facts;
    }
    at += length + 2;
  }
  return fail(Code::kData, "the JPEG file does not state the image size");
}

Result<ImageFacts> stored_facts(Bytes file) {
  if (file.empty()) return fail(Code::kData, "the file is empty");
  if (is_jpeg(file)) return jpeg_facts(file);
  DT_TRY(const ImageHeader header, read_image_header(file));
  return ImageFacts{.format = std::string(header.format) + (header.bits > 8 ? " of 16 bits" : ""),
                    .colors = {},
                    .height = header.height,
                    .width = header.width};
}

}  // namespace

Result<ImageFacts> image_facts(Bytes file) {
  DT_TRY(ImageFacts facts, stored_facts(file));
  facts.orientation = read_orientation_tag(file);
  const ImageSize size = orientation_of_tag(facts.orientation).turned({facts.height, facts.width});
  facts.height = size.height;
  facts.width = size.width;
  return facts;
}

}  // namespace dtrain::images
