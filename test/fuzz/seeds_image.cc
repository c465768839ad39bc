#include "fuzz/targets.h"
#include "images/image.h"
#include "images/make_jpeg.h"
#include "images/raw_image.h"

namespace dtrain::fuzz {

namespace {

std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

images::Image small_image(int channels) {
  images::Image image;
  image.resize(19, 23, channels);
  for (size_t i = 0; i < image.pixels.size(); i++) image.pixels[i] = static_cast<uint8_t>(40 + 7 * i % 200);
  return image;
}

std::string encoded(const std::string& extension, int channels) {
  return text_of(images::encode_image(small_image(channels), extension, 90).value());
}

std::string raw(int channels) {
  return text_of(images::make_raw_image(small_image(channels)).value());
}

std::string jpeg_of(const test::JpegKind& kind) {
  return text_of(test::make_jpeg(37, 45, kind));
}

// Puts EXIF data with the tag of the orientation, in either order of bytes, behind a JPEG's first marker.
std::string with_orientation(const std::string& jpeg, char orientation, bool big_endian) {
  using namespace std::string_literals;
  const std::string big = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"s + orientation + "\0\0\0\0\0\0"s;
  const std::string little = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"s + orientation + "\0\0\0\0\0\0\0"s;
  const std::string exif = "Exif\0\0"s + (big_endian ? big : little);
  return jpeg.substr(0, 2) + "\xff\xe1\0"s + static_cast<char>(exif.size() + 2) + exif + jpeg.substr(2);
}

}  // namespace

std::vector<std::string> image_seeds() {
  std::vector<std::string> seeds = {encoded(".jpg", 1),
                                    encoded(".jpg", 3),
                                    encoded(".png", 1),
                                    encoded(".png", 3),
                                    encoded(".png", 4),
                                    raw(1),
                                    raw(3),
                                    raw(4)};
  seeds.push_back(jpeg_of({.luma_h = 1, .luma_v = 1, .restart_rows = 1}));
  seeds.push_back(jpeg_of({.progressive = true}));
  seeds.push_back(jpeg_of({.scan_for_each_coefficient = true}));
  seeds.push_back(jpeg_of({.from = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .progressive = true}));
  seeds.push_back(jpeg_of({.from = JCS_CMYK, .stored = JCS_YCCK}));
  seeds.push_back(jpeg_of({.from = JCS_CMYK, .stored = JCS_CMYK, .progressive = true}));
  for (const char orientation : {1, 3, 6, 8}) seeds.push_back(with_orientation(seeds[1], orientation, true));
  for (const char orientation : {2, 4, 5, 7}) seeds.push_back(with_orientation(seeds[1], orientation, false));
  return seeds;
}

}  // namespace dtrain::fuzz
