// PNGs of every kind, against OpenCV.
#include "images/png.h"

#include <fmt/format.h>
#include <png.h>

#include <opencv2/imgcodecs.hpp>

#include "data/make_images.h"
#include "images/image_header.h"
#include "images/opencv_codec.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

struct PngKind {
  int type = PNG_COLOR_TYPE_RGB;
  int bits = 8;
  bool interlaced = false;
  bool transparent = false;  // has a tRNS chunk
  enum class Space { kNone, kGamma, kSrgb, kChromaticities };
  Space space = Space::kNone;  // the chunks of a color space, with which libpng would make other grays of colors
};

std::string text_of(const PngKind& kind) {
  return fmt::format("type {}, {} bits{}{}, color space {}", kind.type, kind.bits,
                     kind.interlaced ? ", interlaced" : "", kind.transparent ? ", transparent" : "",
                     static_cast<int>(kind.space));
}

std::vector<PngKind> all_kinds() {
  std::vector<PngKind> kinds;
  for (const int bits : {1, 2, 4, 8, 16}) {
    for (const int type : {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_PALETTE, PNG_COLOR_TYPE_GRAY_ALPHA,
                           PNG_COLOR_TYPE_RGB_ALPHA}) {
      const bool is_allowed = bits == 8 || (bits < 8 ? type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_PALETTE
                                                     : type != PNG_COLOR_TYPE_PALETTE);
      if (!is_allowed) continue;
      for (int flags = 0; flags < 4; flags++) {
        const bool transparent = (flags & 2) != 0;
        if (transparent && (type & PNG_COLOR_MASK_ALPHA) != 0) continue;
        kinds.push_back({type, bits, (flags & 1) != 0, transparent});
      }
    }
  }
  return kinds;
}

// 13 rows and 11 columns of drawn bytes. libpng is told nothing wrong here, so its default of ending the program is
// right.
std::vector<uint8_t> make_png_of_kind(const PngKind& kind) {
  constexpr png_uint_32 kHeight = 13, kWidth = 11;
  std::vector<uint8_t> file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp to, png_bytep bytes, size_t count) {
        auto& out = *static_cast<std::vector<uint8_t>*>(png_get_io_ptr(to));
        out.insert(out.end(), bytes, bytes + count);
      },
      nullptr);
  png_set_IHDR(png, info, kWidth, kHeight, kind.bits, kind.type,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  RandomStream random(kind.bits * 10 + kind.type, Use::kTest);
  std::vector<png_color> palette(size_t{1} << std::min(kind.bits, 8));
  std::vector<png_byte> alphas(palette.size());
  for (size_t i = 0; i < palette.size(); i++) {
    palette[i] = {static_cast<png_byte>(random.below(256)), static_cast<png_byte>(random.below(256)),
                  static_cast<png_byte>(random.below(256))};
    alphas[i] = static_cast<png_byte>(random.below(256));
  }
  const bool has_palette = kind.type == PNG_COLOR_TYPE_PALETTE;
  if (has_palette) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  if (kind.space == PngKind::Space::kGamma) png_set_gAMA(png, info, 0.7);
  if (kind.space == PngKind::Space::kSrgb) png_set_sRGB_gAMA_and_cHRM(png, info, PNG_sRGB_INTENT_PERCEPTUAL);
  if (kind.space == PngKind::Space::kChromaticities) {
    png_set_cHRM(png, info, 0.3127, 0.329, 0.68, 0.32, 0.265, 0.69, 0.15, 0.06);
  }
  const png_color_16 one_color = {0, 1, 1, 1, 1};
  if (kind.transparent) {
    png_set_tRNS(png, info, has_palette ? alphas.data() : nullptr, has_palette ? static_cast<int>(alphas.size()) : 1,
                 has_palette ? nullptr : &one_color);
  }
  png_write_info(png, info);
  std::vector<std::vector<png_byte>> rows(kHeight, std::vector<png_byte>(png_get_rowbytes(png, info)));
  std::vector<png_bytep> places;
  for (auto& row : rows) {
    for (png_byte& byte : row) byte = static_cast<png_byte>(random.below(256));
    places.push_back(row.data());
  }
  png_write_image(png, places.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

cv::Mat decoded_by_us(const std::vector<uint8_t>& file, PngColors colors) {
  cv::Mat image;
  must(decode_png(file, colors, [&image](const PngLayout& layout) {
    image.create(layout.height, layout.width, CV_MAKETYPE(layout.bits == 8 ? CV_8U : CV_16U, layout.channels));
    return image.data;
  }));
  return image;
}

bool equal(const cv::Mat& a, const cv::Mat& b) {
  return a.size() == b.size() && a.type() == b.type() && cv::norm(a, b, cv::NORM_INF) == 0;
}

}  // namespace

TEST_CASE("a PNG of every kind has the pixels of OpenCV, in gray, in color and as stored", "[images]") {
  const std::vector<PngKind> kinds = all_kinds();
  CHECK(kinds.size() == 52);
  for (const PngKind& kind : kinds) {
    INFO(text_of(kind));
    const std::vector<uint8_t> file = make_png_of_kind(kind);
    CHECK(equal(decoded_by_us(file, PngColors::kGray), cv::imdecode(file, cv::IMREAD_GRAYSCALE)));
    CHECK(equal(decoded_by_us(file, PngColors::kColor), cv::imdecode(file, cv::IMREAD_COLOR)));
    CHECK(equal(decoded_by_us(file, PngColors::kAsStored), cv::imdecode(file, cv::IMREAD_UNCHANGED)));
  }
}

TEST_CASE("a color space changes no pixel of a PNG", "[images]") {
  using Space = PngKind::Space;
  for (PngKind kind : all_kinds()) {
    const std::vector<uint8_t> plain = make_png_of_kind(kind);
    for (const Space space : {Space::kGamma, Space::kSrgb, Space::kChromaticities}) {
      kind.space = space;
      INFO(text_of(kind));
      const std::vector<uint8_t> file = make_png_of_kind(kind);
      REQUIRE(file.size() > plain.size());
      for (const PngColors colors : {PngColors::kGray, PngColors::kColor, PngColors::kAsStored}) {
        CHECK(equal(decoded_by_us(file, colors), decoded_by_us(plain, colors)));
      }
    }
  }
}

TEST_CASE("a PNG has the bytes that OpenCV writes", "[images]") {
  for (const int channels : {1, 3, 4}) {
    for (int level = 0; level <= 9; level++) {
      INFO(channels << " channels, level " << level);
      const Image image = test::gradient_image(40, 70, channels, 5);
      CHECK(must(encode_image(image, ".png", level)) == test::encode_with_opencv(image, ".png", level));
    }
    CHECK(must(encode_image(test::gradient_image(9, 7, channels, 1), ".png", 95)) ==
          test::encode_with_opencv(test::gradient_image(9, 7, channels, 1), ".png", 3));
    cv::Mat deep(5, 6, CV_16UC(channels));
    for (int i = 0; i < 5 * 6 * channels; i++) deep.ptr<uint16_t>()[i] = static_cast<uint16_t>(7919 * i);
    std::vector<uint8_t> theirs;
    cv::imencode(".png", deep, theirs, {cv::IMWRITE_PNG_COMPRESSION, 3});
    CHECK(must(encode_png(deep.data, {.height = 5, .width = 6, .channels = channels, .bits = 16}, 3)) == theirs);
  }
}

TEST_CASE("a damaged PNG is refused with libpng's reason", "[images]") {
  std::vector<uint8_t> file = must(encode_image(test::gradient_image(6, 6, 3, 1), ".png", 3));
  file[8 + 25 + 8 + 6] ^= 0x10;  // in the data of IDAT
  Image image;
  const Result<> decoded = ImageDecoder().decode(file, 3, image);
  REQUIRE_FALSE(decoded);
  CHECK_THAT(decoded.error().message, Catch::StartsWith("PNG: ") && Catch::Contains("IDAT"));
}
