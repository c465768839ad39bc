#include "images/raw_image.h"

#include <algorithm>
#include <opencv2/imgproc.hpp>

#include "data/sources/record_source.h"
#include "images/mat.h"
#include "make_images.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using Catch::Matchers::Contains;
using dtrain::test::must;

namespace {

std::string raw_refusal(Bytes file) {
  ImageDecoder decoder;
  Image image;
  const auto decoded = decoder.decode(file, 3, image);
  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().code == Code::kData);
  CHECK_FALSE(parse_raw_image(file));
  return decoded.error().message;
}

}  // namespace

TEST_CASE("a raw image has a header of 12 bytes and its pixels", "[data]") {
  Image image;
  image.resize(2, 258, 1);
  image.pixels[0] = 7;
  const auto file = must(make_raw_image(image));
  REQUIRE(file.size() == 12 + 2 * 258);
  CHECK(std::vector<uint8_t>(file.begin(), file.begin() + 13) ==
        std::vector<uint8_t>{0x44, 0x54, 0x52, 0x57, 2, 0, 2, 1, 1, 0, 0, 0, 7});
  image.resize(65536, 1, 1);
  CHECK_THAT(make_raw_image(image).error().message, Contains("65536 x 1 cannot be stored raw"));
}

TEST_CASE("a raw image and any part of it have the pixels that were stored", "[data]") {
  ImageDecoder decoder;
  Image read;
  for (const int channels : {1, 3, 4}) {
    INFO(channels << " channels");
    const Image image = test::gradient_image(13, 29, channels, 2);
    const auto file = must(make_raw_image(image));
    must(decoder.decode(file, channels, read));
    CHECK((read.height == 13 && read.width == 29 && read.pixels == image.pixels));
    must(decoder.decode_as_stored(file, read));
    CHECK((read.channels == channels && read.pixels == image.pixels));
    REQUIRE(must(decoder.open(file, channels)) == ImageSize{13, 29});
    const Window wanted{.y = 4, .x = 10, .height = 6, .width = 19};
    REQUIRE(must(decoder.read(wanted, read)) == wanted);
    REQUIRE((read.height == 6 && read.width == 19));
    CHECK(std::equal(read.at(0, 0), read.at(0, 0) + 19 * channels, image.at(4, 10)));
    CHECK(std::equal(read.at(5, 0), read.at(5, 0) + 19 * channels, image.at(9, 10)));
  }
}

TEST_CASE("a raw image becomes gray or color as OpenCV converts it", "[data]") {
  ImageDecoder decoder;
  Image read;
  const struct {
    int from, to, code;
  } cases[] = {
      {1, 3, cv::COLOR_GRAY2BGR}, {3, 1, cv::COLOR_BGR2GRAY}, {4, 1, cv::COLOR_BGRA2GRAY}, {4, 3, cv::COLOR_BGRA2BGR}};
  for (const auto& c : cases) {
    INFO(c.from << " to " << c.to << " channels");
    const Image image = test::gradient_image(13, 29, c.from, 2);
    Image expected;
    expected.resize(13, 29, c.to);
    cv::Mat target = view(expected);
    cv::cvtColor(view(image), target, c.code);
    must(decoder.decode(must(make_raw_image(image)), c.to, read));
    CHECK(read.pixels == expected.pixels);
  }
  const auto color = must(make_raw_image(test::gradient_image(2, 2, 3, 1)));
  CHECK_THAT(decoder.decode(color, 4, read).error().message, Contains("has 3 channels, but 4 are needed"));
}

TEST_CASE("a raw image is refused unless its header is valid and its length exact", "[data]") {
  const auto file = must(make_raw_image(test::gradient_image(3, 4, 3, 1)));
  for (size_t length = 0; length < file.size(); length++) {
    INFO("length " << length);
    raw_refusal(Bytes(file).first(length));
  }
  const auto changed = [&](size_t at, uint8_t value) {
    std::vector<uint8_t> bytes = file;
    bytes[at] = value;
    return raw_refusal(bytes);
  };
  CHECK_THAT(changed(4, 2), Contains("2 x 4 x 3 pixels need 24 bytes, but 36 bytes follow the header"));
  CHECK_THAT(changed(4, 0), Contains("0 x 4 pixels"));
  CHECK_THAT(changed(8, 2), Contains("announces 2 channels; it must be 1, 3 or 4"));
  CHECK_THAT(changed(10, 1), Contains("bytes 9 to 11 of the header must be zero"));
  CHECK_THAT(changed(0, 'E'), Contains("are not an image in a known format"));
  auto longer = file;
  longer.push_back(0);
  CHECK_THAT(raw_refusal(longer), Contains("but 37 bytes follow"));
  CHECK_THAT(raw_refusal(Bytes(file).first(11)), Contains("ends within its header"));
  std::vector<uint8_t> bomb(file.begin(), file.begin() + 12);
  bomb[4] = bomb[5] = bomb[6] = bomb[7] = 0xff;
  CHECK_THAT(raw_refusal(bomb), Contains("65535 x 65535 pixels, more than the limit"));
}

TEST_CASE("records may hold raw images", "[data]") {
  const test::TempDir dir;
  const std::string path = dir.path("raw.rec");
  const Image image = test::gradient_image(5, 6, 3, 1);
  std::vector<uint8_t> bytes;
  must(append_record(bytes, test::image_payload(0, 2, must(make_raw_image(image)))));
  test::write_bytes(path, bytes);
  const Log log = Log::silent();
  const auto source = must(open_records({.paths = {path}, .index = {}}, log));
  ReadScratch scratch;
  CHECK(must(test::read_label(*source, 0, scratch)) == 2);
  CHECK(scratch.size() == ImageSize{5, 6});
  CHECK(must(scratch.decode())->pixels == image.pixels);
}
