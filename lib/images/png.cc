#include "images/png.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
// This is the library's png.h, not the one in this directory.
#include <png.h>

#include "images/image_header.h"

namespace dtrain::images {
namespace {

// libpng reports an error by calling a function that must not return; here the function leaves by longjmp. So no object
// with a destructor may live between setjmp and the library's calls.
struct PngMessage {
  char text[128] = "";

  [[noreturn]] static void take(png_structp png, png_const_charp text) {
    std::snprintf(static_cast<PngMessage*>(png_get_error_ptr(png))->text, sizeof PngMessage::text, "%s", text);
    png_longjmp(png, 1);
  }
  // Warnings are ignored: they concern parts of the file on which no pixel depends.
  static void ignore(png_structp /*png*/, png_const_charp /*text*/) {}
};

class PngReader {
 public:
  explicit PngReader(Bytes file)
      : rest_(file),
        png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &message_, PngMessage::take, PngMessage::ignore)) {
    DT_CHECK(png_ != nullptr, "libpng cannot be used");
    info_ = png_create_info_struct(png_);
    // Color spaces are ignored, because they must not change the pixels: if libpng knew one, it would convert colors to
    // other gray values.
    static constexpr png_byte kColorSpaces[] = "gAMA\0sRGB\0cHRM\0iCCP\0cICP";
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kColorSpaces, 5);
    png_set_read_fn(png_, this, copy_bytes);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  Result<PngLayout> read_header(PngColors colors);
  Result<> read_pixels(const PngLayout& layout, uint8_t* pixels);

 private:
  static void copy_bytes(png_structp png, png_bytep to, size_t count) {
    Bytes& rest = static_cast<PngReader*>(png_get_io_ptr(png))->rest_;
    if (count > rest.size()) png_error(png, "the file ends early");
    std::memcpy(to, rest.data(), count);
    rest = rest.subspan(count);
  }
  [[nodiscard]] tl::unexpected<Error> failure() const { return fail(Code::kData, "PNG: {}", message_.text); }
  void set_transformations(const PngLayout& layout);

  PngMessage message_;
  Bytes rest_;
  png_structp png_;
  png_infop info_ = nullptr;
  std::vector<png_bytep> rows_;
};

Result<PngLayout> PngReader::read_header(PngColors colors) {
  if (setjmp(png_jmpbuf(png_)) != 0) return failure();
  png_read_info(png_, info_);
  PngLayout layout{.height = static_cast<int>(png_get_image_height(png_, info_)),
                   .width = static_cast<int>(png_get_image_width(png_, info_)),
                   .channels = colors == PngColors::kGray ? 1 : 3};
  if (colors != PngColors::kAsStored) return layout;
  const int type = png_get_color_type(png_, info_);
  const bool is_color = (type & PNG_COLOR_MASK_COLOR) != 0;
  const bool is_transparent = is_color && png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
  layout.channels = (type & PNG_COLOR_MASK_ALPHA) != 0 || is_transparent ? 4 : is_color ? 3 : 1;
  layout.bits = std::max<int>(8, png_get_bit_depth(png_, info_));
  return layout;
}

// Sets the conversions that OpenCV's grfmt_png.cpp uses, including its weights for gray.
void PngReader::set_transformations(const PngLayout& layout) {
  const int type = png_get_color_type(png_, info_), bits = png_get_bit_depth(png_, info_);
  const bool is_color = (type & PNG_COLOR_MASK_COLOR) != 0;
  if (layout.bits == 8 && bits == 16) png_set_strip_16(png_);
  if (layout.bits == 16 && std::endian::native == std::endian::little) png_set_swap(png_);
  if (layout.channels == 4) {
    png_set_tRNS_to_alpha(png_);
  } else {
    png_set_strip_alpha(png_);
  }
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
  if (!is_color && bits < 8) png_set_expand_gray_1_2_4_to_8(png_);
  if (layout.channels == 1) {
    constexpr double kRed = 0.299, kGreen = 0.587;
    png_set_rgb_to_gray(png_, PNG_ERROR_ACTION_NONE, kRed, kGreen);
  } else if (is_color) {
    png_set_bgr(png_);
  } else {
    png_set_gray_to_rgb(png_);
  }
  png_set_interlace_handling(png_);
}

Result<> PngReader::read_pixels(const PngLayout& layout, uint8_t* pixels) {
  rows_.resize(static_cast<size_t>(layout.height));
  for (size_t y = 0; y < rows_.size(); y++) rows_[y] = pixels + y * layout.row_bytes();
  if (setjmp(png_jmpbuf(png_)) != 0) return failure();
  set_transformations(layout);
  png_read_update_info(png_, info_);
  if (png_get_rowbytes(png_, info_) != layout.row_bytes()) png_error(png_, "the rows have an unexpected length");
  png_read_image(png_, rows_.data());
  png_read_end(png_, nullptr);
  return {};
}

class PngWriter {
 public:
  PngWriter() : png_(png_create_write_struct(PNG_LIBPNG_VER_STRING, &message_, PngMessage::take, PngMessage::ignore)) {
    DT_CHECK(png_ != nullptr, "libpng cannot be used");
    info_ = png_create_info_struct(png_);
    png_set_write_fn(png_, this, append_bytes, [](png_structp) {});
  }
  ~PngWriter() { png_destroy_write_struct(&png_, &info_); }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;

  Result<std::vector<uint8_t>> write(const uint8_t* pixels, const PngLayout& layout, int level);

 private:
  static void append_bytes(png_structp png, png_bytep bytes, size_t count) {
    auto& writer = *static_cast<PngWriter*>(png_get_io_ptr(png));
    try {
      writer.file_.insert(writer.file_.end(), bytes, bytes + count);
      return;
    } catch (const std::bad_alloc&) {  // because an exception must not pass through the library
    }
    png_error(png, "not enough memory for the encoded image");
  }

  PngMessage message_;
  std::vector<uint8_t> file_;
  png_structp png_;
  png_infop info_ = nullptr;
  std::vector<png_bytep> rows_;
};

Result<std::vector<uint8_t>> PngWriter::write(const uint8_t* pixels, const PngLayout& layout, int level) {
  rows_.resize(static_cast<size_t>(layout.height));
  for (size_t y = 0; y < rows_.size(); y++) rows_[y] = const_cast<png_bytep>(pixels) + y * layout.row_bytes();
  if (setjmp(png_jmpbuf(png_)) != 0) return fail(Code::kData, "PNG: {}", message_.text);
  png_set_compression_level(png_, level);
  png_set_compression_strategy(png_, 0);  // 0 is zlib's default strategy, which OpenCV uses if a level is given
  const int type = layout.channels == 1   ? PNG_COLOR_TYPE_GRAY
                   : layout.channels == 3 ? PNG_COLOR_TYPE_RGB
                                          : PNG_COLOR_TYPE_RGB_ALPHA;
  png_set_IHDR(png_, info_, static_cast<png_uint_32>(layout.width), static_cast<png_uint_32>(layout.height),
               layout.bits, type, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png_, info_);
  png_set_bgr(png_);
  if (std::endian::native == std::endian::little) png_set_swap(png_);
  png_write_image(png_, rows_.data());
  png_write_end(png_, info_);
  return std::move(file_);
}

}  // namespace

Result<> decode_png(Bytes file, PngColors colors, const std::function<uint8_t*(const PngLayout&)>& memory) {
  if (has_cut_png_chunk(file)) {
    return fail(Code::kData, "PNG: the file ends early, or the length of a chunk is damaged ({} bytes)", file.size());
  }
  PngReader reader(file);
  DT_TRY(const PngLayout layout, reader.read_header(colors));
  return reader.read_pixels(layout, memory(layout));
}

Result<std::vector<uint8_t>> encode_png(const uint8_t* pixels, const PngLayout& layout, int level) {
  constexpr int kLevelMax = 9, kLevelAbove = 3;
  return PngWriter().write(pixels, layout, level > kLevelMax ? kLevelAbove : level);
}

}  // namespace dtrain::images
