#include "images/image.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "data/make_images.h"
#include "images/image_header.h"
#include "images/make_jpeg.h"
#include "images/opencv_codec.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

// OpenCV's pixels are the reference, because MXNet decodes with OpenCV.
void check_equal_to_opencv(Bytes file, int channels) {
  ImageDecoder decoder;
  Image ours;
  must(decoder.decode(file, channels, ours));
  const Image theirs = test::decode_with_opencv(file, channels == 1 ? 0 : 1);
  REQUIRE(ours.height == theirs.height);
  REQUIRE(ours.width == theirs.width);
  REQUIRE(ours.pixels == theirs.pixels);
}

}  // namespace

TEST_CASE("JPEGs decode to the same pixels as OpenCV's, in color and in gray", "[images]") {
  const struct {
    int height, width, channels, quality;
  } cases[] = {{32, 32, 3, 95}, {28, 28, 1, 90},   {1, 1, 3, 95},  {7, 9, 3, 50},
               {65, 33, 3, 80}, {240, 319, 3, 95}, {17, 64, 1, 30}};
  for (const auto& c : cases) {
    INFO(c.height << " x " << c.width << " x " << c.channels);
    const auto jpeg = must(encode_image(test::gradient_image(c.height, c.width, c.channels, 3), ".jpg", c.quality));
    check_equal_to_opencv(jpeg, 3);
    check_equal_to_opencv(jpeg, 1);
  }
}

// All sizes of blocks: OpenCV halves the colors of both edges, and make_jpeg keeps them.
TEST_CASE("a part of an image has the pixels of the whole image", "[images]") {
  std::vector<std::vector<uint8_t>> files = {must(encode_image(test::gradient_image(70, 131, 3, 1), ".jpg", 80)),
                                             must(encode_image(test::gradient_image(70, 131, 1, 1), ".jpg", 80)),
                                             must(encode_image(test::gradient_image(70, 131, 3, 1), ".png", 95)),
                                             test::make_jpeg(70, 131, {}),
                                             test::make_jpeg(70, 131, {.progressive = true}),
                                             test::make_jpeg(70, 131, {.from = JCS_CMYK, .stored = JCS_YCCK})};
  ImageDecoder decoder;
  Image whole, part;
  for (const auto& file : files) {
    for (const int channels : {1, 3}) {
      must(decoder.decode(file, channels, whole));
      for (uint64_t seed = 1; seed <= 60; seed++) {
        INFO("file " << &file - files.data() << ", " << channels << " channels, seed " << seed);
        RandomStream random(seed, Use::kTest);
        Window wanted{.height = 1 + static_cast<int>(random.below(70)),
                      .width = 1 + static_cast<int>(random.below(131))};
        wanted.y = static_cast<int>(random.below(71 - wanted.height));
        wanted.x = static_cast<int>(random.below(132 - wanted.width));
        REQUIRE(must(decoder.open(file, channels)) == ImageSize{70, 131});
        const Window given = must(decoder.read(wanted, part));
        REQUIRE((part.height == given.height && part.width == given.width && part.channels == channels));
        REQUIRE((given.y <= wanted.y && given.y + given.height >= wanted.y + wanted.height));
        REQUIRE((given.x <= wanted.x && given.x + given.width >= wanted.x + wanted.width));
        const auto row_bytes = static_cast<size_t>(wanted.width) * static_cast<size_t>(channels);
        for (int y = wanted.y; y < wanted.y + wanted.height; y++) {
          REQUIRE(std::memcmp(part.at(y - given.y, wanted.x - given.x), whole.at(y, wanted.x), row_bytes) == 0);
        }
      }
    }
  }
}

TEST_CASE("a part of a JPEG that was cut off anywhere is an error", "[images]") {
  ImageDecoder decoder;
  Image part;
  const Window wanted{.y = 5, .x = 9, .height = 3, .width = 4};
  for (const test::JpegKind& kind : {test::JpegKind{}, test::JpegKind{.progressive = true}}) {
    const auto jpeg = test::make_jpeg(40, 40, kind);
    for (size_t length = 0; length + 2 < jpeg.size(); length++) {
      INFO("length " << length);
      const Bytes cut = Bytes(jpeg).first(length);
      const Result<ImageSize> opened = decoder.open(cut, 3);
      REQUIRE((!opened || decoder.read(wanted, part).error().code == Code::kData));
    }
    must(decoder.open(jpeg, 3));
    must(decoder.read(wanted, part));
  }
}

TEST_CASE("PNGs decode without loss", "[images]") {
  ImageDecoder decoder;
  for (const int channels : {1, 3, 4}) {
    const Image image = test::gradient_image(9, 7, channels, 1);
    Image decoded;
    must(decoder.decode(must(encode_image(image, ".png", 95)), channels, decoded));
    CHECK(decoded.pixels == image.pixels);
  }
}

TEST_CASE("an image with the wrong number of channels is an error if decoding cannot convert it", "[images]") {
  ImageDecoder decoder;
  Image decoded;
  const auto png = must(encode_image(test::gradient_image(4, 4, 3, 1), ".png", 95));
  CHECK(decoder.decode(png, 4, decoded).error().code == Code::kData);
  CHECK(decoder.decode(png, 1, decoded));
}

TEST_CASE("a JPEG that ends early is an error, and the decoder can be used again", "[images]") {
  ImageDecoder decoder;
  for (const test::JpegKind& kind :
       {test::JpegKind{}, test::JpegKind{.from = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE},
        test::JpegKind{.progressive = true}, test::JpegKind{.from = JCS_CMYK, .stored = JCS_CMYK},
        test::JpegKind{.from = JCS_CMYK, .stored = JCS_YCCK}}) {
    INFO("stored as " << kind.stored << (kind.progressive ? ", progressive" : ""));
    const auto jpeg = test::make_jpeg(24, 24, kind);
    Image decoded, whole;
    must(decoder.decode(jpeg, 3, whole));
    for (size_t length = 0; length + 2 < jpeg.size(); length++) {
      INFO("length " << length);
      const auto result = decoder.decode(Bytes(jpeg).first(length), 3, decoded);
      REQUIRE(!result);
      REQUIRE(result.error().code == Code::kData);
    }
    must(decoder.decode(jpeg, 3, decoded));
    CHECK(decoded.pixels == whole.pixels);
  }
}

// Most flips change a coefficient, which cannot be detected. No flip may cause a crash, a hang, or the allocation of a
// huge image.
TEST_CASE("a JPEG with any bit flipped is an image or an error", "[images]") {
  const auto jpeg = must(encode_image(test::gradient_image(12, 12, 3, 1), ".jpg", 50));
  ImageDecoder decoder;
  Image decoded;
  int refused = 0;
  for (size_t bit = 0; bit < 8 * jpeg.size(); bit++) {
    std::vector<uint8_t> flipped = jpeg;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const auto result = decoder.decode(flipped, 3, decoded);
    if (!result) refused++;
  }
  CHECK(refused > 100);
  CHECK(decoded.pixels.capacity() < static_cast<size_t>(kImagePixelsMax) * 3 + 1);
}

TEST_CASE("a PNG truncated or damaged is an image or an error", "[images]") {
  const auto png = must(encode_image(test::gradient_image(6, 6, 3, 1), ".png", 95));
  ImageDecoder decoder;
  Image decoded;
  for (size_t length = 0; length < png.size(); length++) {
    CHECK(!decoder.decode(Bytes(png).first(length), 3, decoded));
  }
  int refused = 0;
  for (size_t bit = 0; bit < 8 * png.size(); bit++) {
    std::vector<uint8_t> flipped = png;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    if (!decoder.decode(flipped, 3, decoded)) refused++;
  }
  CHECK(refused > 100);
}

TEST_CASE("CMYK JPEGs decode to the same pixels as OpenCV's", "[images]") {
  for (const J_COLOR_SPACE stored : {JCS_CMYK, JCS_YCCK}) {
    for (const bool progressive : {false, true}) {
      const auto jpeg = test::make_jpeg(37, 50, {.from = JCS_CMYK, .stored = stored, .progressive = progressive});
      check_equal_to_opencv(jpeg, 3);
      check_equal_to_opencv(jpeg, 1);
    }
  }
}

TEST_CASE("a JPEG with many scans is refused, one with ten is not", "[images]") {
  ImageDecoder decoder;
  Image image;
  must(decoder.decode(test::make_jpeg(40, 40, {.progressive = true}), 3, image));
  const auto refused = decoder.decode(test::make_jpeg(40, 40, {.scan_for_each_coefficient = true}), 3, image);
  REQUIRE(!refused);
  CHECK(refused.error().message == "JPEG: the image has more than 100 scans");
  must(decoder.decode(test::make_jpeg(40, 40, {}), 3, image));  // the decoder still works
}

TEST_CASE("the shorter edge is resized, and the other is scaled and rounded down", "[images]") {
  CHECK((size_of_shorter_edge({500, 375}, 256) == ImageSize{341, 256}));
  CHECK((size_of_shorter_edge({375, 500}, 256) == ImageSize{256, 341}));
  CHECK((size_of_shorter_edge({10, 20}, 40) == ImageSize{40, 80}));
  Image out;
  const ImageSize large = size_of_shorter_edge({1, 20000}, 224);
  CHECK(!resize_image(test::gradient_image(1, 20000, 1, 1), large.height, large.width, out));
}

TEST_CASE("the central square leaves out as much on both sides, an odd row at the end", "[images]") {
  const Image image = test::position_image(5, 8, 1);
  const Image square = central_square(image);
  REQUIRE(square.height == 5);
  REQUIRE(square.width == 5);
  CHECK(*square.at(0, 0) == *image.at(0, 1));
  CHECK(*square.at(4, 4) == *image.at(4, 5));
}

TEST_CASE("photographs decode to the same pixels as OpenCV's", "[images]") {
  const char* root = std::getenv("DTRAIN_TEST_DATA");
  if (root == nullptr) {
    std::cout << "skipped: DTRAIN_TEST_DATA does not name the directory of the real data\n";
    return;
  }
  // A tar file: 512 bytes of header with the size in octal, then the file, filled up to 512.
  const auto tar = test::read_bytes(std::string(root) + "/imagenet-sample.tar");
  REQUIRE(tar.size() > 512);
  int compared = 0;
  for (size_t at = 0; at + 512 <= tar.size() && tar[at] != 0 && compared < 40;) {
    const size_t bytes = std::stoul(std::string(reinterpret_cast<const char*>(&tar[at + 124]), 11), nullptr, 8);
    const Bytes file = Bytes(tar).subspan(at + 512, bytes);
    at += 512 + (bytes + 511) / 512 * 512;
    if (bytes == 0 || file[0] != 0xff) continue;
    check_equal_to_opencv(file, compared % 4 == 0 ? 1 : 3);
    compared++;
  }
  CHECK(compared == 40);
}
