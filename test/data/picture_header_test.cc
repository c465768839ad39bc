#include "data/pictures/picture_header.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <iostream>

#include "make_images.h"
#include "make_jpeg.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::data;
using Catch::Matchers::Contains;
using dtrain::test::must;

namespace {

constexpr const char* kFormats[] = {".png", ".bmp", ".webp", ".ppm"};

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

TEST_CASE("a picture's size is read from its header", "[data]") {
  for (const char* extension : kFormats) {
    INFO(extension);
    const auto file = must(encode_image(test::gradient_image(9, 300, 3, 1), extension, 95));
    const PictureHeader header = must(read_picture_header(file));
    CHECK(header.height == 9);
    CHECK(header.width == 300);
    CHECK(header.bits == 8);
    ImageDecoder decoder;
    Image image;
    must(decoder.decode(file, 3, image));
    CHECK(image.height == 9);
    CHECK(image.width == 300);
  }
  const PictureHeader pgm = must(read_picture_header(bytes_of("P5#a\n # 7\n 12\t# x\n3 65535\n")));
  CHECK(pgm.width == 12);
  CHECK(pgm.height == 3);
  CHECK(pgm.bits == 16);
}

// OpenCV reads the number behind "#" as the height, and would take memory for that many rows.
TEST_CASE("a PNM header is refused if OpenCV would read other numbers in it", "[data]") {
  for (const char* header :
       {"P5\n20000#20000\n1 255\n", "P5 20000x20000 255\n", "P5 1 1 65535#\n", "P4 1 1", "P6 1 1 "}) {
    INFO(header);
    CHECK_THAT(refusal(bytes_of(header), 3), Contains("PNM: the image has"));
  }
}

TEST_CASE("a file that ends early is refused in every format, and with any bit flipped it is a picture or an error",
          "[data]") {
  ImageDecoder decoder;
  Image image;
  for (const char* extension : {".bmp", ".webp", ".ppm"}) {  // PNG: image_test.cc
    INFO(extension);
    const auto file = must(encode_image(test::gradient_image(5, 6, 3, 1), extension, 95));
    for (size_t length = 0; length < file.size(); length++) {
      INFO("length " << length);
      REQUIRE_FALSE(decoder.decode(Bytes(file).first(length), 3, image));
    }
    for (size_t bit = 0; bit < 8 * file.size(); bit++) {
      std::vector<uint8_t> flipped = file;
      flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      if (!decoder.decode(flipped, 3, image)) continue;
      REQUIRE(int64_t{image.height} * image.width <= kPicturePixelsMax);
    }
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

// The reader of the records says which one it was and why; OpenCV's own line would name neither.
TEST_CASE("no decoder message is printed for a damaged picture, and other output on stderr is kept", "[data]") {
  ImageDecoder decoder;
  Image image;
  for (const char* extension : {".bmp", ".ppm"}) {
    INFO(extension);
    const auto file = must(encode_image(test::gradient_image(5, 6, 3, 1), extension, 95));
    CapturedStderr captured;
    for (size_t length = 0; length < file.size(); length++) (void)decoder.decode(Bytes(file).first(length), 3, image);
    CHECK(captured.text().empty());
    std::cerr << "a line of " << 3 << " words\n" << 'x' << std::endl;
    CHECK(captured.text() == "a line of 3 words\nx\n");
  }
}

TEST_CASE("a picture with too many pixels is refused after its header is read, with its size and the limit", "[data]") {
  const std::string limit = "pixels are more than the limit of 67108864";
  for (const int channels : {1, 3, 4}) {
    INFO(channels << " channels");
    // 30 bytes of WebP that announce 16383 x 16383, lossy and lossless, and a canvas of 2^24 x 2^24.
    CHECK_THAT(refusal(bytes_of({"RIFF\x1c\0\0\0WEBPVP8 \x10\0\0\0\0\0\0\x9d\x01\x2a\xff\x3f\xff\x3f", 30}), channels),
               Contains("WebP: 16383 x 16383 " + limit));
    CHECK_THAT(refusal(bytes_of({"RIFF\x1c\0\0\0WEBPVP8L\x10\0\0\0\x2f\xff\xff\xff\x0f\0\0\0\0\0", 30}), channels),
               Contains("WebP: 16384 x 16384 " + limit));
    CHECK_THAT(refusal(bytes_of({"RIFF\x1c\0\0\0WEBPVP8X\x10\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff", 30}), channels),
               Contains("WebP: 16777216 x 16777216 " + limit));
    CHECK_THAT(refusal(bytes_of("P6 100000 100000 255\n"), channels), Contains("PNM: 100000 x 100000 " + limit));
    auto bmp = must(encode_image(test::gradient_image(4, 4, 3, 1), ".bmp", 95));
    bmp[20] = bmp[24] = 1;
    CHECK_THAT(refusal(bmp, channels), Contains("BMP: 65540 x 65540 " + limit));
    auto png = must(encode_image(test::gradient_image(4, 4, 3, 1), ".png", 95));
    png[17] = png[21] = 1;
    CHECK_THAT(refusal(png, channels), Contains("PNG: 65540 x 65540 " + limit));
    for (const test::JpegKind& kind : {test::JpegKind{}, test::JpegKind{.progressive = true},
                                       test::JpegKind{.from = JCS_CMYK, .stored = JCS_CMYK}}) {
      auto jpeg = test::make_jpeg(16, 16, kind);
      test::announce_size(jpeg, 11000, 11000);
      CHECK_THAT(refusal(jpeg, channels), Contains("JPEG: 11000 x 11000 " + limit));
    }
  }
}

TEST_CASE("a picture is refused by the name of its format if only decoding could tell its size", "[data]") {
  CHECK_THAT(refusal(bytes_of({"II*\0\x08\0\0\0", 8})),
             Contains("TIFF images cannot be read; convert the image to JPEG, PNG"));
  CHECK_THAT(refusal(bytes_of({"\0\0\0\x0cjP  \r\n\x87\n", 12})), Contains("JPEG 2000 images cannot be read"));
  CHECK_THAT(refusal(bytes_of("\xff\x4f\xff\x51")), Contains("JPEG 2000 images cannot be read"));
  CHECK_THAT(refusal(bytes_of("GIF89a")), Contains("GIF images cannot be read"));
  CHECK_THAT(refusal(bytes_of({"\0\0\0\x1c"
                               "ftypavif",
                               12})),
             Contains("HEIF or AVIF images cannot be read"));
  CHECK_THAT(refusal(bytes_of("hello")), Contains("not an image in a known format (5 bytes"));
  CHECK_THAT(refusal({}), Contains("0 bytes"));
}

TEST_CASE("16 bits per channel cannot be kept as stored, and become 8 as color or gray", "[data]") {
  ImageDecoder decoder;
  Image image;
  const std::string pgm = "P5 2 1 65535\n\x80\x01\x40\x02";
  const auto kept = decoder.decode_as_stored(bytes_of(pgm), image);
  REQUIRE_FALSE(kept);
  CHECK_THAT(kept.error().message, Contains("PNM: the image has 16 bits per channel; only images with 8 can keep"));
  must(decoder.decode(bytes_of(pgm), 1, image));
  CHECK(image.pixels == std::vector<uint8_t>{0x80, 0x40});
  // PNG's depth, checksum and all: the header is looked at before the file is decoded.
  auto png = must(encode_image(test::gradient_image(4, 4, 1, 1), ".png", 95));
  png[24] = 16;
  CHECK_THAT(decoder.decode_as_stored(png, image).error().message, Contains("PNG: the image has 16 bits per channel"));
}
