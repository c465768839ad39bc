#include "images/image_header.h"

#include <unistd.h>

#include <cstdio>

#include "data/make_images.h"
#include "images/make_jpeg.h"
#include "images/make_png.h"
#include "images/opencv_codec.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::images;
using Catch::Matchers::Contains;
using dtrain::test::must;

namespace {

Bytes bytes_of(std::string_view text) {
  return as_bytes(text);
}

std::string refusal(Bytes file, int channels = 3) {
  ImageDecoder decoder;
  Image image;
  const auto decoded = decoder.decode(file, channels, image);
  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().code == Code::kData);
  CHECK(image.pixels.empty());
  return decoded.error().message;
}

}  // namespace

TEST_CASE("an image's size is read from its header", "[images]") {
  const auto file = must(encode_image(test::gradient_image(9, 300, 3, 1), ".png", 3));
  const ImageHeader header = must(read_image_header(file));
  CHECK(header.height == 9);
  CHECK(header.width == 300);
  CHECK(header.bits == 8);
  ImageDecoder decoder;
  Image image;
  must(decoder.decode(file, 3, image));
  CHECK(image.size() == ImageSize{9, 300});
  const ImageHeader deep = must(read_image_header(test::deep_png({{0x8001, 0x4002, 7}})));
  CHECK(deep.height == 1);
  CHECK(deep.width == 3);
  CHECK(deep.bits == 16);
}

TEST_CASE("a PNG that ends early is refused, and with any bit flipped it is an image or an error", "[images]") {
  ImageDecoder decoder;
  Image image;
  const auto file = must(encode_image(test::gradient_image(5, 6, 3, 1), ".png", 3));
  constexpr size_t kEndBytes = 12;  // the chunk IEND, behind all pixels
  for (size_t length = 0; length + kEndBytes < file.size(); length++) {
    INFO("length " << length);
    REQUIRE_FALSE(decoder.decode(Bytes(file).first(length), 3, image));
  }
  for (size_t bit = 0; bit < 8 * file.size(); bit++) {
    std::vector<uint8_t> flipped = file;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    if (!decoder.decode(flipped, 3, image)) continue;
    REQUIRE(int64_t{image.height} * image.width <= kImagePixelsMax);
  }
}

// Captures everything that is written to file descriptor 2 during its lifetime.
class CapturedStderr {
 public:
  CapturedStderr() : saved_(::dup(2)), file_(std::tmpfile()) { ::dup2(::fileno(file_), 2); }
  ~CapturedStderr() {
    ::dup2(saved_, 2);
    ::close(saved_);
    std::fclose(file_);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  std::string text() {
    std::string all(static_cast<size_t>(::lseek(2, 0, SEEK_END)), '\0');
    REQUIRE(::pread(2, all.data(), all.size(), 0) == static_cast<ssize_t>(all.size()));
    return all;
  }

 private:
  int saved_;
  std::FILE* file_;
};

// The reader of the records says which one it was and why; a line of the library would name neither.
TEST_CASE("no decoder message is printed for a damaged image", "[images]") {
  ImageDecoder decoder;
  Image image;
  const auto file = must(encode_image(test::gradient_image(5, 6, 3, 1), ".png", 3));
  CapturedStderr captured;
  for (size_t length = 0; length < file.size(); length++) (void)decoder.decode(Bytes(file).first(length), 3, image);
  for (size_t byte = 8; byte < file.size(); byte++) {
    std::vector<uint8_t> damaged = file;
    damaged[byte] ^= 0x21;
    (void)decoder.decode(damaged, 3, image);
  }
  CHECK(captured.text().empty());
}

TEST_CASE("an image with too many pixels is refused after its header is read, with its size and the limit",
          "[images]") {
  const std::string limit = "pixels, more than the limit of 67108864";
  for (const int channels : {1, 3, 4}) {
    INFO(channels << " channels");
    auto png = must(encode_image(test::gradient_image(4, 4, 3, 1), ".png", 95));
    png[17] = png[21] = 1;
    CHECK_THAT(refusal(png, channels), Contains("PNG: the image has 65540 x 65540 " + limit));
    for (const test::JpegKind& kind : {test::JpegKind{}, test::JpegKind{.progressive = true},
                                       test::JpegKind{.from = JCS_CMYK, .stored = JCS_CMYK}}) {
      auto jpeg = test::make_jpeg(16, 16, kind);
      test::announce_size(jpeg, 11000, 11000);
      CHECK_THAT(refusal(jpeg, channels), Contains("JPEG: the image has 11000 x 11000 " + limit));
    }
  }
}

TEST_CASE("an image of a format that is not read is refused by the format's name, with a remedy", "[images]") {
  CHECK_THAT(
      refusal(bytes_of({"II*\0\x08\0\0\0", 8})),
      Contains("TIFF images are not supported; convert the image to PNG or JPEG, as `mogrify -format png` does"));
  for (const auto& [extension, name] : {std::pair(".bmp", "BMP"), {".webp", "WebP"}, {".ppm", "PNM"}}) {
    const auto file = test::encode_with_opencv(test::gradient_image(4, 4, 3, 1), extension, 95);
    CHECK_THAT(refusal(file), Contains(std::string(name) + " images are not supported"));
    Image image;
    CHECK_THAT(ImageDecoder().decode_as_stored(file, image).error().message, Contains(name));
  }
  CHECK_THAT(refusal(bytes_of("P5#a\n 1 1 255\n")), Contains("PNM images are not supported"));
  CHECK_THAT(refusal(bytes_of({"\0\0\0\x0cjP  \r\n\x87\n", 12})), Contains("JPEG 2000 images are not supported"));
  CHECK_THAT(refusal(bytes_of("\xff\x4f\xff\x51")), Contains("JPEG 2000 images are not supported"));
  CHECK_THAT(refusal(bytes_of("GIF89a")), Contains("GIF images are not supported"));
  CHECK_THAT(refusal(bytes_of({"\0\0\0\x1c"
                               "ftypavif",
                               12})),
             Contains("HEIF or AVIF images are not supported"));
  CHECK_THAT(refusal(bytes_of("hello")), Contains("the data (5 bytes"));
  CHECK_THAT(refusal({}), Contains("0 bytes"));
}

TEST_CASE("16 bits per channel cannot be kept as stored, and become 8 as color or gray", "[images]") {
  ImageDecoder decoder;
  Image image;
  const auto deep = test::deep_png({{0x8001, 0x4002}});
  const auto kept = decoder.decode_as_stored(deep, image);
  REQUIRE_FALSE(kept);
  CHECK_THAT(kept.error().message, Contains("PNG: the image has 16 bits per channel; only images with 8 can keep"));
  must(decoder.decode(deep, 1, image));
  CHECK(image.pixels == std::vector<uint8_t>{0x80, 0x40});
  // PNG's depth, checksum and all: the header is looked at before the file is decoded.
  auto png = must(encode_image(test::gradient_image(4, 4, 1, 1), ".png", 95));
  png[24] = 16;
  CHECK_THAT(decoder.decode_as_stored(png, image).error().message, Contains("PNG: the image has 16 bits per channel"));
}
