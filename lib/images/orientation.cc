#include "images/orientation.h"

#include <zlib.h>

#include <algorithm>
#include <opencv2/core.hpp>
#include <string_view>
#include <utility>

#include "images/jpeg.h"
#include "images/mat.h"

namespace dtrain::images {
namespace {

using namespace std::string_view_literals;

bool starts_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::ranges::equal(bytes.first(text.size()), as_bytes(text));
}

// Reads numbers at any position. Beyond the end of the data they are 0.
class Numbers {
 public:
  Numbers(Bytes bytes, bool little) : bytes_(bytes), little_(little) {}
  [[nodiscard]] uint32_t u16(size_t at) const { return number(at, 2); }
  [[nodiscard]] uint32_t u32(size_t at) const { return number(at, 4); }

 private:
  [[nodiscard]] uint32_t number(size_t at, size_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < count; i++) value = value << 8 | bytes_[little_ ? at + count - 1 - i : at + i];
    return value;
  }

  Bytes bytes_;
  bool little_;
};

// The EXIF block of a JPEG; empty if there is none. The search ends at the pixels. Bytes between the segments are
// skipped, as libjpeg does.
Bytes exif_of_jpeg(Bytes file) {
  constexpr uint8_t kMark = 0xff, kTem = 0x01, kRst0 = 0xd0, kSoi = 0xd8, kEoi = 0xd9, kSos = 0xda, kApp1 = 0xe1;
  constexpr std::string_view kExif = "Exif\0\0"sv;
  const Numbers numbers(file, false);
  for (size_t at = 2; at + 4 <= file.size();) {
    const uint8_t marker = file[at + 1];
    if (file[at] != kMark || marker == 0 || marker == kMark) {
      at++;
      continue;
    }
    if (marker == kSos || marker == kEoi) break;
    at += 2;
    if (marker == kTem || (marker >= kRst0 && marker <= kSoi)) continue;
    const size_t length = numbers.u16(at);
    if (length < 2 || length > file.size() - at) break;
    const Bytes segment = file.subspan(at + 2, length - 2);
    if (marker == kApp1 && starts_with(segment, kExif)) return segment.subspan(kExif.size());
    at += length;
  }
  return {};
}

// The EXIF block of a PNG. If there are two, the first is used. A block with a wrong checksum is ignored, as in libpng.
Bytes exif_of_png(Bytes file) {
  const Numbers numbers(file, false);
  constexpr size_t kFrameBytes = 12;  // length, type and checksum of a chunk
  for (size_t at = 8; at + kFrameBytes <= file.size();) {
    const size_t length = numbers.u32(at);
    if (length > file.size() - at - kFrameBytes) break;
    const Bytes type_and_data = file.subspan(at + 4, 4 + length);
    if (starts_with(type_and_data, "IEND")) break;
    if (starts_with(type_and_data, "eXIf") &&
        crc32(0, type_and_data.data(), static_cast<uInt>(type_and_data.size())) == numbers.u32(at + 8 + length)) {
      return type_and_data.subspan(4);
    }
    at += kFrameBytes + length;
  }
  return {};
}

Window swap_edges(const Window& window) {
  return {.y = window.x, .x = window.y, .height = window.width, .width = window.height};
}

}  // namespace

Window Orientation::stored_part(const Window& turned, const ImageSize& size) const {
  Window part = turned;
  if (mirrored) part.x = static_cast<int>(size.width) - part.x - part.width;
  if (upside_down) part.y = static_cast<int>(size.height) - part.y - part.height;
  return transposed ? swap_edges(part) : part;
}

Window Orientation::turned_part(const Window& stored, const ImageSize& size) const {
  Window part = transposed ? swap_edges(stored) : stored;
  if (mirrored) part.x = static_cast<int>(size.width) - part.x - part.width;
  if (upside_down) part.y = static_cast<int>(size.height) - part.y - part.height;
  return part;
}

void Orientation::turn(const Image& stored, Image& out) const {
  if (transposed) {
    out.resize(stored.width, stored.height, stored.channels);
  } else {
    out.resize(stored.height, stored.width, stored.channels);
  }
  cv::Mat target = view(out);
  if (transposed) {
    cv::transpose(view(stored), target);
  } else {
    view(stored).copyTo(target);
  }
  if (mirrored || upside_down) cv::flip(target, target, mirrored && upside_down ? -1 : mirrored ? 1 : 0);
}

Orientation orientation_of_tag(int value) {
  switch (value) {
    case 2: return {.mirrored = true};
    case 3: return {.mirrored = true, .upside_down = true};
    case 4: return {.upside_down = true};
    case 5: return {.transposed = true};
    case 6: return {.transposed = true, .mirrored = true};
    case 7: return {.transposed = true, .mirrored = true, .upside_down = true};
    case 8: return {.transposed = true, .upside_down = true};
    default: return {};
  }
}

// The block is a TIFF file: the byte order, 42, the offset of a directory, which has a number of entries of 12 bytes:
// tag, type, count, value. The type and the count are not checked, as in OpenCV.
int exif_orientation_tag(Bytes exif) {
  constexpr uint32_t kTiff = 42, kOrientation = 0x0112;
  const bool little = starts_with(exif, "II");
  if (!little && !starts_with(exif, "MM")) return 1;
  const Numbers numbers(exif, little);
  if (numbers.u16(2) != kTiff) return 1;
  const size_t directory = numbers.u32(4), entries = numbers.u16(directory);
  for (size_t i = 0; i < entries; i++) {
    const size_t entry = directory + 2 + 12 * i;
    if (entry >= exif.size()) break;
    if (numbers.u16(entry) != kOrientation) continue;
    const uint32_t value = numbers.u16(entry + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

int read_orientation_tag(Bytes file) {
  if (is_jpeg(file)) return exif_orientation_tag(exif_of_jpeg(file));
  if (starts_with(file, "\x89PNG\r\n\x1a\n")) return exif_orientation_tag(exif_of_png(file));
  return 1;
}

}  // namespace dtrain::images
