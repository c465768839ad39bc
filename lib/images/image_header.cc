#include "images/image_header.h"

#include <cctype>

#include "images/raw_image.h"

namespace dtrain::images {
namespace {

using namespace std::string_view_literals;

bool has_at(Bytes file, size_t at, std::string_view text) {
  if (file.size() < at + text.size()) return false;
  const Bytes part = file.subspan(at, text.size());
  return std::string_view(reinterpret_cast<const char*>(part.data()), part.size()) == text;
}

// Reads numbers at positions of a header. A position past the end of the file reads as 0 and is recorded.
class Fields {
 public:
  explicit Fields(Bytes file) : file_(file) {}

  int64_t u32(size_t at) { return little(at, 4); }
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

// Reads the header of a PNG. IHDR comes first: W3C PNG, section 11.2.2.
ImageHeader png_header(Fields& fields) {
  return {"PNG", fields.big_u32(20), fields.big_u32(16), static_cast<int>(fields.u8(24))};
}

bool is_pnm(Bytes file) {
  return file.size() > 2 && file[0] == 'P' && file[1] >= '1' && file[1] <= '6' &&
         (file[2] == '#' || std::isspace(file[2]) != 0);
}

}  // namespace

std::string_view unread_format(Bytes file) {
  if (is_pnm(file)) return "PNM";
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
                 {"BMP", 0, "BM"sv},
                 {"WebP", 8, "WEBP"sv},
                 {"OpenEXR", 0, "\x76\x2f\x31\x01"sv},
                 {"Radiance HDR", 0, "#?R"sv},
                 {"HEIF or AVIF", 4, "ftyp"sv},
                 {"DICOM", 128, "DICM"sv}};
  for (const auto& format : formats) {
    if (has_at(file, format.at, format.signature)) return format.name;
  }
  return {};
}

Result<ImageHeader> read_image_header(Bytes file) {
  if (is_raw_image(file)) {
    DT_TRY(const RawImage raw, parse_raw_image(file));
    return ImageHeader{"raw image", raw.height, raw.width};
  }
  Fields fields(file);
  ImageHeader header;
  if (has_at(file, 0, "\x89PNG\r\n\x1a\n")) {
    header = png_header(fields);
  } else if (const std::string_view name = unread_format(file); !name.empty()) {
    return fail(Code::kData,
                "{} images are not supported; convert the image to PNG or JPEG, as `mogrify -format png` does", name);
  } else {
    return fail(Code::kData,
                "the data ({} bytes) are not an image in a known format, which are JPEG, PNG and raw images",
                file.size());
  }
  if (fields.cut()) return fail(Code::kData, "{}: the file ends within its header", header.format);
  return header;
}

bool has_cut_png_chunk(Bytes file) {
  if (!has_at(file, 0, "\x89PNG\r\n\x1a\n")) return false;
  constexpr size_t kFrameBytes = 12;  // length, type and checksum of a chunk
  Fields fields(file);
  for (size_t at = 8; at + kFrameBytes <= file.size() && !has_at(file, at + 4, "IEND");) {
    const auto length = static_cast<size_t>(fields.big_u32(at));
    if (length > file.size() - at - kFrameBytes) return true;
    at += kFrameBytes + length;
  }
  return false;
}

Result<> check_image_size(std::string_view format, int64_t height, int64_t width) {
  if (height < 1 || width < 1)
    return fail(Code::kData, "{}: the image has an invalid size of {} x {} pixels", format, height, width);
  // Compare each edge first, because the product may overflow.
  if (height <= kImagePixelsMax && width <= kImagePixelsMax && height * width <= kImagePixelsMax) return {};
  return fail(Code::kData, "{}: the image has {} x {} pixels, more than the limit of {}", format, height, width,
              kImagePixelsMax);
}

Result<> check_decoding_bytes(std::string_view format, int64_t bytes) {
  if (bytes <= kDecodingBytesMax) return {};
  constexpr int64_t kMiB = 1 << 20;
  return fail(Code::kData, "{}: decoding the image takes {} MiB, and the limit is {} MiB", format,
              (bytes + kMiB - 1) / kMiB, kDecodingBytesMax / kMiB);
}

}  // namespace dtrain::images
