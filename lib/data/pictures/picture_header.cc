#include "data/pictures/picture_header.h"

#include <cctype>
#include <cstdlib>
#include <optional>

#include "data/pictures/raw_picture.h"

namespace dtrain::data {
namespace {

using namespace std::string_view_literals;

bool has_at(Bytes file, size_t at, std::string_view text) {
  if (file.size() < at + text.size()) return false;
  const Bytes part = file.subspan(at, text.size());
  return std::string_view(reinterpret_cast<const char*>(part.data()), part.size()) == text;
}

// Reads numbers at positions of a header. A position behind the end of the file reads as 0, and is remembered.
class Fields {
 public:
  explicit Fields(Bytes file) : file_(file) {}

  int64_t u16(size_t at) { return little(at, 2); }
  int64_t u24(size_t at) { return little(at, 3); }
  int64_t u32(size_t at) { return little(at, 4); }
  int64_t i32(size_t at) { return static_cast<int32_t>(u32(at)); }
  int64_t big_u32(size_t at) { return __builtin_bswap32(static_cast<uint32_t>(u32(at))); }
  int64_t u8(size_t at) { return little(at, 1); }
  [[nodiscard]] bool cut() const { return cut_; }

 private:
  int64_t little(size_t at, size_t bytes) {
    if (at + bytes > file_.size()) {
      cut_ = true;
      return 0;
    }
    int64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= int64_t{file_[at + i]} << (8 * i);
    return value;
  }

  Bytes file_;
  bool cut_ = false;
};

// W3C PNG, section 11.2.2: IHDR comes first.
PictureHeader png_header(Fields& fields) {
  return {"PNG", fields.big_u32(20), fields.big_u32(16), static_cast<int>(fields.u8(24))};
}

// BITMAPCOREHEADER has 12 bytes and 16-bit numbers. In the longer headers the height is negative if the top row comes
// first.
PictureHeader bmp_header(Fields& fields) {
  if (fields.u32(14) == 12) return {"BMP", fields.u16(20), fields.u16(18)};
  return {"BMP", std::abs(fields.i32(22)), fields.i32(18)};
}

// RFC 9649: a lossy or a lossless picture, or a canvas, whose size libwebp compares with that of the picture.
PictureHeader webp_header(Bytes file, Fields& fields) {
  PictureHeader header{"WebP"};
  if (has_at(file, 12, "VP8X")) {
    header.width = fields.u24(24) + 1;
    header.height = fields.u24(27) + 1;
  } else if (has_at(file, 12, "VP8L")) {
    const int64_t sizes = fields.u32(21);
    header.width = (sizes & 0x3fff) + 1;
    header.height = (sizes >> 14 & 0x3fff) + 1;
  } else if (has_at(file, 12, "VP8 ")) {
    header.width = fields.u16(26) & 0x3fff;
    header.height = fields.u16(28) & 0x3fff;
  }
  return header;
}

// Reads the numbers of a PNM header, which blanks and comments separate; nullopt if there is no number, or no blank
// behind it. OpenCV skips one byte behind a number, so that "5#9" is the numbers 5 and 9 for it, and not a comment.
class PnmNumbers {
 public:
  explicit PnmNumbers(Bytes file) : rest_(file.subspan(2)) {}

  std::optional<int64_t> next() {
    skip_blanks();
    if (rest_.empty() || std::isdigit(rest_.front()) == 0) return std::nullopt;
    int64_t value = 0;
    for (; !rest_.empty() && std::isdigit(rest_.front()) != 0; rest_ = rest_.subspan(1)) {
      value = 10 * value + (rest_.front() - '0');
      if (value > INT32_MAX) return std::nullopt;
    }
    if (rest_.empty() || std::isspace(rest_.front()) == 0) return std::nullopt;
    return value;
  }

 private:
  void skip_blanks() {
    bool in_comment = false;
    for (; !rest_.empty(); rest_ = rest_.subspan(1)) {
      const uint8_t c = rest_.front();
      if (in_comment) {
        in_comment = c != '\n' && c != '\r';
      } else if (c == '#') {
        in_comment = true;
      } else if (std::isspace(c) == 0) {
        return;
      }
    }
  }

  Bytes rest_;
};

bool is_pnm(Bytes file) {
  return file.size() > 2 && file[0] == 'P' && file[1] >= '1' && file[1] <= '6' &&
         (file[2] == '#' || std::isspace(file[2]) != 0);
}

PictureHeader pnm_header(Bytes file) {
  PnmNumbers numbers(file);
  PictureHeader header{"PNM"};
  header.width = numbers.next().value_or(0);
  header.height = numbers.next().value_or(0);
  const bool has_largest_value = file[1] != '1' && file[1] != '4';
  if (!has_largest_value) return header;
  const std::optional<int64_t> largest_value = numbers.next();
  if (!largest_value) header.height = 0;
  if (largest_value.value_or(0) > 255) header.bits = 16;
  return header;
}

// The name of a format that OpenCV may read but this file does not; empty if it is none of them.
std::string_view unread_format(Bytes file) {
  const struct {
    std::string_view name;
    size_t at;
    std::string_view signature;
  } formats[] = {{"TIFF", 0, "II*\0"sv},
                 {"TIFF", 0, "MM\0*"sv},
                 {"TIFF", 0, "II+\0"sv},
                 {"TIFF", 0, "MM\0+"sv},
                 {"JPEG 2000", 0, "\0\0\0\x0cjP  "sv},
                 {"JPEG 2000", 0, "\xff\x4f\xff\x51"sv},
                 {"GIF", 0, "GIF8"sv},
                 {"OpenEXR", 0, "\x76\x2f\x31\x01"sv},
                 {"Radiance HDR", 0, "#?R"sv},
                 {"HEIF or AVIF", 4, "ftyp"sv},
                 {"DICOM", 128, "DICM"sv}};
  for (const auto& format : formats) {
    if (has_at(file, format.at, format.signature)) return format.name;
  }
  return {};
}

}  // namespace

Result<PictureHeader> read_picture_header(Bytes file) {
  if (is_raw_picture(file)) {
    DT_TRY(const RawPicture raw, parse_raw_picture(file));
    return PictureHeader{"raw picture", raw.height, raw.width};
  }
  Fields fields(file);
  PictureHeader header;
  if (has_at(file, 0, "\x89PNG\r\n\x1a\n")) {
    header = png_header(fields);
  } else if (has_at(file, 0, "BM")) {
    header = bmp_header(fields);
  } else if (has_at(file, 0, "RIFF") && has_at(file, 8, "WEBP")) {
    header = webp_header(file, fields);
  } else if (is_pnm(file)) {
    header = pnm_header(file);
  } else if (const std::string_view name = unread_format(file); !name.empty()) {
    return fail(Code::kData, "{} images cannot be read; convert the image to JPEG, PNG, BMP, WebP or PNM", name);
  } else {
    return fail(Code::kData, "not an image in a known format ({} bytes); known are JPEG, PNG, BMP, WebP and PNM",
                file.size());
  }
  if (fields.cut()) return fail(Code::kData, "{}: the file ends within its header", header.format);
  return header;
}

bool has_cut_png_chunk(Bytes file) {
  if (!has_at(file, 0, "\x89PNG\r\n\x1a\n")) return false;
  constexpr size_t kFrameBytes = 12;  // length, type and checksum
  Fields fields(file);
  for (size_t at = 8; at + kFrameBytes <= file.size() && !has_at(file, at + 4, "IEND");) {
    const auto length = static_cast<size_t>(fields.big_u32(at));
    if (length > file.size() - at - kFrameBytes) return true;
    at += kFrameBytes + length;
  }
  return false;
}

Result<> check_picture_size(std::string_view format, int64_t height, int64_t width) {
  if (height < 1 || width < 1) return fail(Code::kData, "{}: the image has {} x {} pixels", format, height, width);
  // Compare each edge first, because the product may overflow.
  if (height <= kPicturePixelsMax && width <= kPicturePixelsMax && height * width <= kPicturePixelsMax) return {};
  return fail(Code::kData, "{}: {} x {} pixels are more than the limit of {}", format, height, width,
              kPicturePixelsMax);
}

Result<> check_decoding_bytes(std::string_view format, int64_t bytes) {
  if (bytes <= kDecodingBytesMax) return {};
  constexpr int64_t kMiB = 1 << 20;
  return fail(Code::kData, "{}: decoding the image takes {} MiB, and the limit is {} MiB", format,
              (bytes + kMiB - 1) / kMiB, kDecodingBytesMax / kMiB);
}

}  // namespace dtrain::data
