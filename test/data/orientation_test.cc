#include "images/orientation.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <opencv2/imgcodecs.hpp>

#include "data/sources/survey.h"
#include "images/image_facts.h"
#include "images/image_header.h"
#include "images/make_jpeg.h"
#include "images/mat.h"
#include "make_images.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

void append(std::vector<uint8_t>& out, uint32_t value, int bytes, bool little) {
  for (int i = 0; i < bytes; i++) {
    out.push_back(static_cast<uint8_t>(value >> 8 * (little ? i : bytes - 1 - i)));
  }
}

// An EXIF block whose directory has one entry more than the orientation.
std::vector<uint8_t> exif_block(int orientation, bool little) {
  std::vector<uint8_t> out(2, little ? 'I' : 'M');
  append(out, 42, 2, little);
  append(out, 8, 4, little);
  append(out, 2, 2, little);
  for (const auto& [tag, value] : {std::pair{0x0103, 6}, std::pair{0x0112, orientation}}) {
    append(out, static_cast<uint32_t>(tag), 2, little);
    append(out, 3, 2, little);
    append(out, 1, 4, little);
    append(out, static_cast<uint32_t>(value), 2, little);
    append(out, 0, 2, little);
  }
  append(out, 0, 4, little);
  return out;
}

void insert(std::vector<uint8_t>& file, size_t at, const std::vector<uint8_t>& bytes) {
  file.insert(file.begin() + static_cast<ptrdiff_t>(at), bytes.begin(), bytes.end());
}

std::vector<uint8_t> jpeg_with(std::vector<uint8_t> jpeg, const std::vector<uint8_t>& exif) {
  std::vector<uint8_t> segment = {0xff, 0xe1};
  append(segment, static_cast<uint32_t>(2 + 6 + exif.size()), 2, false);
  for (const char c : {'E', 'x', 'i', 'f', '\0', '\0'}) segment.push_back(static_cast<uint8_t>(c));
  segment.insert(segment.end(), exif.begin(), exif.end());
  insert(jpeg, 2, segment);
  return jpeg;
}

// `at` is that of a chunk's beginning.
std::vector<uint8_t> png_with(std::vector<uint8_t> png, size_t at, const std::vector<uint8_t>& exif) {
  std::vector<uint8_t> chunk = {'e', 'X', 'I', 'f'};
  chunk.insert(chunk.end(), exif.begin(), exif.end());
  append(chunk, static_cast<uint32_t>(crc32(0, chunk.data(), static_cast<uInt>(chunk.size()))), 4, false);
  std::vector<uint8_t> length;
  append(length, static_cast<uint32_t>(exif.size()), 4, false);
  insert(chunk, 0, length);
  insert(png, at, chunk);
  return png;
}

void check_as_imdecode(const std::vector<uint8_t>& file, int channels) {
  const cv::Mat theirs = cv::imdecode(file, channels == 1 ? cv::IMREAD_GRAYSCALE : cv::IMREAD_COLOR);
  ImageDecoder decoder;
  Image ours;
  REQUIRE(must(decoder.open(file, channels)) == ImageSize{theirs.rows, theirs.cols});
  must(decoder.decode(file, channels, ours));
  REQUIRE((ours.height == theirs.rows && ours.width == theirs.cols));
  REQUIRE(theirs.isContinuous());
  REQUIRE(std::memcmp(ours.pixels.data(), theirs.data, ours.pixels.size()) == 0);
}

constexpr size_t kAfterIhdr = 8 + 25;

}  // namespace

TEST_CASE("images are turned as OpenCV turns them, by each value of the orientation tag", "[data]") {
  const Image image = test::gradient_image(21, 38, 3, 1);
  const auto jpeg = must(encode_image(image, ".jpg", 90)), png = must(encode_image(image, ".png", 3));
  for (const int orientation : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 255}) {
    for (const bool little : {false, true}) {
      INFO("orientation " << orientation << (little ? ", II" : ", MM"));
      const auto exif = exif_block(orientation, little);
      for (const int channels : {1, 3}) {
        check_as_imdecode(jpeg_with(jpeg, exif), channels);
        check_as_imdecode(png_with(png, kAfterIhdr, exif), channels);
        check_as_imdecode(png_with(png, png.size() - 12, exif), channels);
      }
    }
  }
}

TEST_CASE("a part of a turned image has the pixels of the whole image", "[data]") {
  const Image image = test::gradient_image(70, 131, 3, 1);
  const auto jpeg = must(encode_image(image, ".jpg", 80)), png = must(encode_image(image, ".png", 3));
  ImageDecoder decoder;
  Image whole, part;
  for (int orientation = 1; orientation <= 8; orientation++) {
    const auto exif = exif_block(orientation, true);
    for (const auto& file : {jpeg_with(jpeg, exif), png_with(png, kAfterIhdr, exif)}) {
      must(decoder.decode(file, 3, whole));
      for (uint64_t seed = 1; seed <= 20; seed++) {
        INFO("orientation " << orientation << ", seed " << seed);
        RandomStream random(seed, Use::kTest);
        Window wanted{.height = 1 + static_cast<int>(random.below(whole.height)),
                      .width = 1 + static_cast<int>(random.below(whole.width))};
        wanted.y = static_cast<int>(random.below(whole.height - wanted.height + 1));
        wanted.x = static_cast<int>(random.below(whole.width - wanted.width + 1));
        REQUIRE(must(decoder.open(file, 3)) == whole.size());
        const Window given = must(decoder.read(wanted, part));
        REQUIRE((part.height == given.height && part.width == given.width));
        REQUIRE((given.y <= wanted.y && given.y + given.height >= wanted.y + wanted.height));
        REQUIRE((given.x <= wanted.x && given.x + given.width >= wanted.x + wanted.width));
        for (int y = wanted.y; y < wanted.y + wanted.height; y++) {
          REQUIRE(std::memcmp(part.at(y - given.y, wanted.x - given.x), whole.at(y, wanted.x),
                              static_cast<size_t>(3) * static_cast<size_t>(wanted.width)) == 0);
        }
      }
    }
  }
}

TEST_CASE("an image that is read as stored is not turned", "[data]") {
  ImageDecoder decoder;
  Image read;
  const Image image = test::gradient_image(5, 9, 4, 1);
  const auto png = png_with(must(encode_image(image, ".png", 3)), kAfterIhdr, exif_block(6, true));
  must(decoder.decode(png, 4, read));
  CHECK(read.pixels == image.pixels);
  must(decoder.decode_as_stored(png, read));
  CHECK(read.pixels == image.pixels);
  const auto jpeg = jpeg_with(must(encode_image(test::gradient_image(5, 9, 3, 1), ".jpg", 90)), exif_block(6, true));
  must(decoder.decode_as_stored(jpeg, read));
  CHECK(read.size() == ImageSize{5, 9});
}

TEST_CASE("sizes that are told without training are those of the upright image", "[data]") {
  const test::TempDir dir;
  const Image image = test::gradient_image(5, 9, 3, 1);
  const auto png = png_with(must(encode_image(image, ".png", 3)), kAfterIhdr, exif_block(6, true));
  const auto jpeg = jpeg_with(must(encode_image(image, ".jpg", 90)), exif_block(6, true));
  for (const auto& file : {png, jpeg}) {
    const ImageFacts facts = must(image_facts(file));
    CHECK(facts.orientation == 6);
    CHECK(facts.height == 9);
    CHECK(facts.width == 5);
    std::vector<uint8_t> record;
    must(append_record(record, test::image_payload(0, 0, file)));
    test::write_bytes(dir.path("a.rec"), record);
    CHECK(must(survey_records({dir.path("a.rec")})).image == Shape{3, 9, 5});
  }
}

TEST_CASE("only the first EXIF block counts, and other segments and chunks are passed over", "[data]") {
  const Image image = test::gradient_image(5, 9, 3, 1);
  const auto jpeg = must(encode_image(image, ".jpg", 90)), png = must(encode_image(image, ".png", 3));
  const auto six = exif_block(6, true), three = exif_block(3, false);
  const Orientation turned_by_six = orientation_of_tag(6);
  CHECK(read_orientation(jpeg) == Orientation());
  CHECK(read_orientation(png) == Orientation());
  CHECK(read_orientation(jpeg_with(jpeg_with(jpeg, three), six)) == turned_by_six);
  CHECK(read_orientation(png_with(png_with(png, kAfterIhdr, three), kAfterIhdr, six)) == turned_by_six);
  // A segment of XMP, which has the same marker, fill bytes, and garbage.
  auto after_xmp = jpeg_with(jpeg, six);
  insert(after_xmp, 2, {0xff, 0xe1, 0, 6, 'h', 't', 't', 'p', 0xff, 0xff, 0xff, 1, 'x', 0xff, 0});
  CHECK(read_orientation(after_xmp) == turned_by_six);
  // Behind the beginning of the pixels there is no tag.
  CHECK(read_orientation(jpeg_with({0xff, 0xd8, 0xff, 0xda}, six)) == turned_by_six);
  auto after_pixels = std::vector<uint8_t>{0xff, 0xd8, 0xff, 0xda, 0, 2};
  insert(after_pixels, 6, std::vector<uint8_t>(jpeg_with({0xff, 0xd8}, six)));
  CHECK(read_orientation(after_pixels) == Orientation());
  auto damaged = png_with(png, kAfterIhdr, six);
  damaged[kAfterIhdr + 8 + six.size()] ^= 1;  // its checksum
  CHECK(read_orientation(damaged) == Orientation());
  CHECK(read_orientation(as_bytes("hello")) == Orientation());
}

TEST_CASE("an EXIF block that is cut off or lies is harmless", "[data]") {
  for (const bool little : {false, true}) {
    const auto exif = exif_block(6, little);
    REQUIRE(orientation_of_tag(exif_orientation_tag(exif)) == orientation_of_tag(6));
    const size_t value_end = 8 + 2 + 12 + 10;
    for (size_t length = 0; length <= exif.size(); length++) {
      INFO("length " << length);
      REQUIRE(orientation_of_tag(exif_orientation_tag(Bytes(exif).first(length))).turns() == (length >= value_end));
    }
    const auto with = [&](size_t at, const std::vector<uint8_t>& bytes) {
      std::vector<uint8_t> changed = exif;
      std::ranges::copy(bytes, changed.begin() + static_cast<ptrdiff_t>(at));
      return orientation_of_tag(exif_orientation_tag(changed));
    };
    CHECK_FALSE(with(0, {'I', 'M'}).turns());
    CHECK_FALSE(with(2, {0, 0}).turns());
    for (uint8_t high : {0x00, 0x7f, 0xff}) CHECK_FALSE(with(4, {high, 0xff, 0xff, high}).turns());  // the directory
    CHECK_FALSE(with(4, {0, 0, 0, 0}).turns());
    CHECK(with(8, {0xff, 0xff}) == orientation_of_tag(6));               // 65535 entries
    CHECK(with(26, {0xff, 0xff, 0xff, 0xff}) == orientation_of_tag(6));  // the count of the entry
    CHECK_FALSE(with(8, {0, 0}).turns());
  }
  // The image is still one.
  const auto jpeg = must(encode_image(test::gradient_image(5, 9, 3, 1), ".jpg", 90));
  const auto file = jpeg_with(jpeg, exif_block(6, true));
  ImageDecoder decoder;
  Image image;
  for (size_t bit = 0; bit < 8 * (2 + 2 + 2 + 6 + exif_block(6, true).size()); bit++) {
    std::vector<uint8_t> flipped = file;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    if (decoder.decode(flipped, 3, image)) REQUIRE(image.pixels.size() == 5 * 9 * 3);
  }
}
