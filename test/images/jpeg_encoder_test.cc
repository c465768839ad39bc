#include "images/jpeg_encoder.h"

#include <string_view>

#include "data/make_images.h"
#include "images/make_jpeg.h"
#include "images/opencv_codec.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

int restart_markers(const std::vector<uint8_t>& file) {
  int count = 0;
  for (size_t i = 0; i + 1 < file.size(); i++) {
    if (file[i] == 0xff && file[i + 1] >= 0xd0 && file[i + 1] <= 0xd7) count++;
  }
  return count;
}

Image decoded_as_stored(const std::vector<uint8_t>& file) {
  Image image;
  must(ImageDecoder().decode_as_stored(file, image));
  return image;
}

std::vector<uint8_t> with_restarts(JpegEncoder& encoder, const std::vector<uint8_t>& file, int interval) {
  std::vector<uint8_t> out;
  must(encoder.add_restarts(file, interval, out));
  return out;
}

// Inserts a segment behind the JPEG's first two bytes.
std::vector<uint8_t> with_segment(const std::vector<uint8_t>& file, uint8_t marker, std::string_view content) {
  std::vector<uint8_t> out(file.begin(), file.begin() + 2);
  const size_t length = content.size() + 2;
  for (const size_t byte : {size_t{0xff}, size_t{marker}, length >> 8, length & 0xff})
    out.push_back(static_cast<uint8_t>(byte));
  out.insert(out.end(), content.begin(), content.end());
  out.insert(out.end(), file.begin() + 2, file.end());
  return out;
}

bool contains(const std::vector<uint8_t>& file, std::string_view text) {
  return std::string_view(reinterpret_cast<const char*>(file.data()), file.size()).find(text) != std::string_view::npos;
}

}  // namespace

TEST_CASE("a JPEG has the bytes that OpenCV writes", "[images]") {
  JpegEncoder encoder;
  for (const int channels : {1, 3, 4}) {
    for (const int edge : {1, 8, 17, 200}) {
      for (const int quality : {0, 30, 95, 100}) {
        INFO(channels << " channels, " << edge << " pixels, quality " << quality);
        const Image image = test::gradient_image(edge, edge + 3, channels, edge);
        std::vector<uint8_t> file = {1, 2, 3};  // it is appended
        must(encoder.encode(image, {.quality = quality}, file));
        file.erase(file.begin(), file.begin() + 3);
        CHECK(file == test::encode_with_opencv(image, ".jpg", quality));
      }
    }
  }
}

TEST_CASE("restart markers divide the rows of blocks and change no pixel", "[images]") {
  JpegEncoder encoder;
  const Image image = test::gradient_image(100, 60, 3, 1);  // 7 rows of MCUs of 16 x 16
  std::vector<uint8_t> plain, every_row, every_third;
  must(encoder.encode(image, {}, plain));
  must(encoder.encode(image, {.restart_interval = 1}, every_row));
  must(encoder.encode(image, {.restart_interval = 3}, every_third));
  CHECK(restart_markers(plain) == 0);
  CHECK(restart_markers(every_row) == 6);
  CHECK(restart_markers(every_third) == 2);
  CHECK(decoded_as_stored(every_row).pixels == decoded_as_stored(plain).pixels);
}

TEST_CASE("a JPEG of any kind is given restart markers without loss", "[images]") {
  JpegEncoder encoder;
  const std::vector<std::vector<uint8_t>> files = {
      test::make_jpeg(50, 70, {}), test::make_jpeg(50, 70, {.progressive = true}),
      test::make_jpeg(50, 70, {.from = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE}),
      test::make_jpeg(50, 70, {.from = JCS_CMYK, .stored = JCS_YCCK}),
      test::make_jpeg(50, 70, {.from = JCS_CMYK, .stored = JCS_CMYK})};
  for (const auto& file : files) {
    const auto rewritten = with_restarts(encoder, file, 1);
    CHECK(restart_markers(rewritten) >= 3);
    CHECK(decoded_as_stored(rewritten).pixels == decoded_as_stored(file).pixels);
  }
  // Many AC scans become one.
  CHECK(with_restarts(encoder, files[1], 1).size() < files[0].size() + 200);
}

TEST_CASE("segments with EXIF, profiles and comments are kept, those of the library once", "[images]") {
  JpegEncoder encoder;
  const auto file = with_segment(with_segment(with_segment(test::make_jpeg(20, 20, {}), 0xfe, "a comment"), 0xe2,
                                              std::string_view("ICC_PROFILE\0xyz", 15)),
                                 0xe1, std::string_view("Exif\0\0MM", 8));
  const auto rewritten = with_restarts(encoder, file, 1);
  CHECK(contains(rewritten, "a comment"));
  CHECK(contains(rewritten, std::string_view("ICC_PROFILE\0xyz", 15)));
  CHECK(contains(rewritten, std::string_view("Exif\0\0MM", 8)));
  const std::string_view text(reinterpret_cast<const char*>(rewritten.data()), rewritten.size());
  CHECK(text.find("JFIF") == text.rfind("JFIF"));
}

TEST_CASE("a JPEG that is cut off or announces too much is refused, and the encoder can be used again", "[images]") {
  JpegEncoder encoder;
  const auto file = test::make_jpeg(40, 40, {});
  for (size_t length = 0; length < file.size() - 2; length += 7) {
    std::vector<uint8_t> out = {9};
    const auto refused = encoder.add_restarts(Bytes(file).first(length), 1, out);
    INFO(length);
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::kData);
    CHECK(out == std::vector<uint8_t>{9});
  }
  auto bomb = file;
  test::announce_size(bomb, 30000, 30000);
  std::vector<uint8_t> out;
  CHECK(!encoder.add_restarts(bomb, 1, out));
  CHECK(!encoder.add_restarts(test::make_jpeg(16, 16, {.scan_for_each_coefficient = true}), 1, out));
  CHECK(out.empty());
  must(encoder.add_restarts(file, 1, out));
  CHECK(decoded_as_stored(out).pixels == decoded_as_stored(file).pixels);
  Image wide;
  wide.resize(1, 70000, 1);
  CHECK(encoder.encode(wide, {}, out).error().code == Code::kData);
}
