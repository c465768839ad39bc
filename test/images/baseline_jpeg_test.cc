// BaselineJpeg against libjpeg-turbo: the same pixels, or it refuses and libjpeg-turbo decides.
#include "images/baseline_jpeg.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "images/jpeg_pixels.h"
#include "images/libjpeg_turbo.h"
#include "images/make_jpeg.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::images;
using dtrain::test::LibjpegTurbo;

namespace {

struct BaselineKind {
  int height = 40, width = 50;
  int components = 3, h = 1, v = 1;
  int quality = 90, restart_interval = 0;
  int noise = 60;
};

// A smooth image with noise. No noise gives blocks of one number.
std::vector<uint8_t> encode_kind(const BaselineKind& kind, uint32_t seed) {
  const auto set_up = [&](jpeg_compress_struct& info) {
    jpeg_set_quality(&info, kind.quality, TRUE);
    info.optimize_coding = seed % 2 == 0 ? TRUE : FALSE;
    info.restart_interval = static_cast<unsigned>(kind.restart_interval);
    info.comp_info[0].h_samp_factor = kind.h;
    info.comp_info[0].v_samp_factor = kind.v;
  };
  std::mt19937 random(seed);
  const auto sample = [&](int y, size_t i) {
    const int noise = kind.noise == 0 ? 0 : static_cast<int>(random() % static_cast<uint32_t>(2 * kind.noise));
    return static_cast<uint8_t>(std::clamp(static_cast<int>(i) + 2 * y - 60 + noise, 0, 255));
  };
  return dtrain::test::encode_jpeg(kind.height, kind.width, kind.components == 1 ? JCS_GRAYSCALE : JCS_RGB, set_up,
                                   sample);
}

// Then libjpeg-turbo decodes everything.
bool is_skipped() {
  if (has_jpeg_pixels()) return false;
  std::cout << "skipped: no AVX2 and BMI2\n";
  return true;
}

bool is_part_of(const Image& part, const Window& at, const Image& whole) {
  for (int y = 0; y < at.height; y++) {
    const uint8_t* const row = whole.at(at.y + y, at.x);
    if (!std::equal(row, row + static_cast<ptrdiff_t>(at.width) * whole.channels, part.at(y, 0))) return false;
  }
  return true;
}

// Decodes the whole image and parts of it, in color and gray.
void check_kind(const BaselineKind& kind, uint32_t seed, BaselineJpeg& ours) {
  const std::vector<uint8_t> file = encode_kind(kind, seed);
  LibjpegTurbo turbo(file);
  const auto header = turbo.header();
  INFO(kind.height << " x " << kind.width << ", " << kind.components << ", " << kind.h << kind.v << ", quality "
                   << kind.quality << ", restarts " << kind.restart_interval);
  REQUIRE(header);
  Image image;
  for (const int channels : {1, 3}) {
    LibjpegTurbo again(file);
    const std::optional<Image> expected = again.pixels(channels);
    REQUIRE(expected);
    std::vector<Window> windows = {whole_image(expected->size())};
    std::mt19937 random(seed);
    const auto below = [&](int end) { return static_cast<int>(random() % static_cast<uint32_t>(end)); };
    for (int i = 0; i < 8; i++) {
      const int y = below(kind.height), x = below(kind.width);
      windows.push_back({.y = y, .x = x, .height = 1 + below(kind.height - y), .width = 1 + below(kind.width - x)});
    }
    for (const Window& window : windows) {
      INFO(channels << " channels, part " << window.y << " " << window.x << " " << window.height << " "
                    << window.width);
      REQUIRE(ours.read(*header, window, channels, image));
      CHECK(is_part_of(image, window, *expected));
    }
  }
}

}  // namespace

TEST_CASE("ordinary JPEGs have the pixels of libjpeg-turbo, whole and in parts", "[images]") {
  if (is_skipped()) return;
  BaselineJpeg ours;
  uint32_t seed = 1;
  constexpr int kFactors[][3] = {{1, 1, 1}, {3, 1, 1}, {3, 2, 1}, {3, 2, 2}};
  for (const auto& [components, h, v] : kFactors) {
    for (const auto& [height, width] :
         {std::pair{1, 16}, {8, 17}, {15, 31}, {16, 32}, {33, 49}, {70, 131}, {130, 200}}) {
      BaselineKind kind{.height = height, .width = width, .components = components, .h = h, .v = v};
      for (const int quality : {3, 60, 100}) {
        kind.quality = quality;
        kind.noise = quality == 60 ? 0 : 100;
        kind.restart_interval = static_cast<int>(seed % 4);
        check_kind(kind, seed++, ours);
      }
    }
  }
}

// With restart markers, parts are decoded from the last marker above them that is at the beginning of a row of MCUs:
// every row, every second one, every third marker of which three are in two rows, and never before the end of the
// image.
TEST_CASE("parts of JPEGs with restart markers have the pixels of the whole image, at every place", "[images]") {
  if (is_skipped()) return;
  BaselineJpeg ours;
  Image part;
  for (const auto& [v, interval] : {std::pair{1, 3}, {1, 1}, {1, 2}, {1, 6}, {1, 97}, {2, 3}, {2, 6}, {2, 7}}) {
    const BaselineKind kind{.height = 71, .width = v * 24 - 3, .h = v, .v = v, .restart_interval = interval};
    const std::vector<uint8_t> file = encode_kind(kind, 3);
    LibjpegTurbo turbo(file), again(file);
    const auto header = turbo.header();
    const std::optional<Image> whole = again.pixels(3);
    REQUIRE((header && whole));
    for (int y = 0; y < kind.height; y++) {
      for (int x = 0; x < kind.width; x++) {
        const Window at{.y = y, .x = x, .height = std::min(5, kind.height - y), .width = std::min(3, kind.width - x)};
        INFO("factor " << v << ", interval " << interval << ", part at " << y << " " << x);
        REQUIRE(ours.read(*header, at, 3, part));
        REQUIRE(is_part_of(part, at, *whole));
      }
    }
  }
}

namespace {

// Where the restart markers of a file are.
std::vector<size_t> restart_places(const std::vector<uint8_t>& file) {
  std::vector<size_t> places;
  for (size_t at = 0; at + 1 < file.size(); at++) {
    if (file[at] == 0xff && file[at + 1] >= 0xd0 && file[at + 1] <= 0xd7) places.push_back(at);
  }
  return places;
}

}  // namespace

TEST_CASE("JPEGs whose restart markers are not in order are left to libjpeg-turbo", "[images]") {
  if (is_skipped()) return;
  BaselineJpeg ours;
  Image part;
  const BaselineKind kind{.height = 96, .width = 40, .restart_interval = 5};  // one marker behind each row but the last
  const Window last_rows{.y = 80, .x = 4, .height = 16, .width = 20};
  const std::vector<uint8_t> good = encode_kind(kind, 2);
  const std::vector<size_t> places = restart_places(good);
  REQUIRE(places.size() == 11);
  const auto reads = [&](const std::vector<uint8_t>& file) {
    LibjpegTurbo turbo(file);
    const auto header = turbo.header();
    return header && ours.read(*header, last_rows, 3, part);
  };
  CHECK(reads(good));
  const auto place = [&](size_t marker) { return good.begin() + static_cast<ptrdiff_t>(places[marker]); };
  for (size_t marker = 0; marker + 1 < places.size(); marker++) {
    INFO("marker " << marker);
    std::vector<uint8_t> other(good);
    other[places[marker] + 1] ^= 1;
    CHECK_FALSE(reads(other));
    other[places[marker] + 1] = 0xd9;  // the end of the image
    CHECK_FALSE(reads(other));
    other[places[marker] + 1] = 0xff;
    CHECK_FALSE(reads(other));
    std::vector<uint8_t> missing(good.begin(), place(marker));
    missing.insert(missing.end(), place(marker) + 2, good.end());
    CHECK_FALSE(reads(missing));
    std::vector<uint8_t> twice(good.begin(), place(marker) + 2);
    twice.insert(twice.end(), place(marker), good.end());
    CHECK_FALSE(reads(twice));
  }
}

// The rows above the part are not decoded, just as those below it are not. What is wrong there does not matter.
TEST_CASE("damage above the last restart marker before a part does not matter to the part", "[images]") {
  if (is_skipped()) return;
  BaselineJpeg ours;
  Image part;
  const BaselineKind kind{.height = 32, .width = 40, .restart_interval = 5};
  const std::vector<uint8_t> good = encode_kind(kind, 2);
  const std::vector<size_t> places = restart_places(good);
  REQUIRE(places.size() == 3);
  LibjpegTurbo turbo(good);
  const std::optional<Image> whole = turbo.pixels(3);
  const Window last_rows{.y = 24, .x = 0, .height = 8, .width = 40};
  int refused_whole = 0;
  for (size_t bit = 8 * (places[0] + 2); bit < 8 * good.size(); bit++) {
    std::vector<uint8_t> bad = good;
    bad[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
    INFO("bit " << bit << " of " << 8 * good.size());
    LibjpegTurbo damaged(bad);
    const auto header = damaged.header();
    REQUIRE(header);
    const bool is_above = bit / 8 < places[2];
    const bool reads = ours.read(*header, last_rows, 3, part);
    if (is_above && reads) {
      REQUIRE(is_part_of(part, last_rows, *whole));
      refused_whole += ours.read(*header, whole_image(whole->size()), 3, part) ? 0 : 1;
    } else if (reads) {
      LibjpegTurbo again(bad);
      const std::optional<Image> expected = again.pixels(3);
      REQUIRE((expected && is_part_of(part, last_rows, *expected)));
    }
  }
  CHECK(refused_whole > 100);
}

// A flipped bit may give numbers too large for 16 bits, codes that do not exist, and data that end too early or too
// late.
TEST_CASE("damaged JPEGs have the pixels of libjpeg-turbo, or are left to it", "[images]") {
  if (is_skipped()) return;
  BaselineJpeg ours;
  int decoded = 0, refused = 0;
  Image image;
  const auto check_file = [&](const std::vector<uint8_t>& file) {
    LibjpegTurbo turbo(file);
    const auto header = turbo.header();
    if (!header || header->height > 100 || header->width > 100) return;
    if (!ours.read(*header, whole_image({header->height, header->width}), 3, image)) {
      refused++;
      return;
    }
    decoded++;
    LibjpegTurbo again(file);
    const std::optional<Image> expected = again.pixels(3);
    REQUIRE(expected);
    REQUIRE(image.pixels == expected->pixels);
  };
  for (const BaselineKind& kind : {BaselineKind{.height = 24, .width = 40, .quality = 10, .noise = 100},
                                   BaselineKind{.height = 24, .width = 40, .h = 2, .v = 2, .quality = 80},
                                   BaselineKind{.height = 9, .width = 33, .h = 2, .restart_interval = 2}}) {
    const std::vector<uint8_t> good = encode_kind(kind, 2);
    for (size_t bit = 0; bit < 8 * good.size(); bit++) {
      std::vector<uint8_t> bad = good;
      bad[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
      INFO("bit " << bit);
      check_file(bad);
    }
    for (size_t bytes = 0; bytes < good.size(); bytes++)
      check_file({good.begin(), good.begin() + static_cast<ptrdiff_t>(bytes)});
  }
  CHECK(decoded > 1'000);
  CHECK(refused > 1'000);
}
