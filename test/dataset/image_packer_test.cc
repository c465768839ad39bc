#include "dataset/packing/image_packer.h"

#include <filesystem>
#include <opencv2/imgproc.hpp>

#include "data/make_images.h"
#include "data/records/image_record.h"
#include "images/make_jpeg.h"
#include "images/opencv_codec.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::dataset;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

// The image in the record of one file.
Result<std::vector<uint8_t>> packed_image(const test::TempDir& dir, const std::string& name, const PackOptions& options,
                                          size_t place = 0) {
  must(check(options));
  ImagePacker packer(options, {.root = dir.path()}, Log::silent());
  std::vector<uint8_t> payload;
  DT_TRY_VOID(packer.pack({7, {1}, name}, place, payload));
  DT_TRY(const ImageRecord record, parse_image_record(payload));
  return std::vector<uint8_t>(record.image.begin(), record.image.end());
}

cv::Mat opencv_read(const std::vector<uint8_t>& file) {
  return cv::imdecode(file, cv::IMREAD_UNCHANGED);
}

bool equal_pixels(const cv::Mat& a, const cv::Mat& b) {
  return a.size() == b.size() && a.type() == b.type() && cv::norm(a, b, cv::NORM_INF) == 0;
}

// A PNG of 16 bits per channel, 6 rows and 8 columns.
cv::Mat deep_image(int channels) {
  cv::Mat image(6, 8, CV_16UC(channels));
  for (int y = 0; y < image.rows; y++) {
    for (int x = 0; x < image.cols * channels; x++)
      image.ptr<uint16_t>(y)[x] = static_cast<uint16_t>(257 * (y * 11 + x));
  }
  return image;
}

void write_deep(const test::TempDir& dir, const std::string& name, const cv::Mat& image) {
  std::vector<uint8_t> file;
  cv::imencode(".png", image, file);
  test::write_bytes(dir.path(name), file);
}

}  // namespace

TEST_CASE("images of 16 bits stay as they are in PNG, and are refused by JPEG", "[data]") {
  const test::TempDir dir;
  for (const int channels : {1, 3, 4}) {
    const cv::Mat image = deep_image(channels);
    write_deep(dir, "deep.png", image);
    const PackOptions as_stored{.color = -1, .encoding = ".png"};
    CHECK(equal_pixels(opencv_read(must(packed_image(dir, "deep.png", as_stored))), image));
    PackOptions changed = as_stored;
    changed.center_crop = true;
    changed.resize = 4;
    cv::Mat expected;
    cv::resize(image(cv::Rect(1, 0, 6, 6)), expected, cv::Size(4, 4), 0, 0, cv::INTER_LINEAR);
    CHECK(equal_pixels(opencv_read(must(packed_image(dir, "deep.png", changed))), expected));
  }
  const auto refused = packed_image(dir, "deep.png", {.color = -1});
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::kData);
  CHECK_THAT(refused.error().line(), Catch::Contains("16 bits per channel") && Catch::Contains("--encoding .png") &&
                                         Catch::Contains("deep.png"));
  CHECK(opencv_read(must(packed_image(dir, "deep.png", {.color = 1}))).depth() == CV_8U);
}

TEST_CASE("stored channels are kept: alpha in PNG, gray in JPEG", "[data]") {
  const test::TempDir dir;
  test::write_bytes(dir.path("alpha.png"), must(encode_image(test::gradient_image(9, 7, 4, 1), ".png", 3)));
  test::write_bytes(dir.path("gray.jpg"), must(encode_image(test::gradient_image(9, 7, 1, 1), ".jpg", 90)));
  CHECK(opencv_read(must(packed_image(dir, "alpha.png", {.color = -1, .encoding = ".png"}))).channels() == 4);
  CHECK(opencv_read(must(packed_image(dir, "gray.jpg", {.color = -1}))).channels() == 1);
}

TEST_CASE("the central square has the pixels of the whole image, also if only a part is decoded", "[data]") {
  const test::TempDir dir;
  for (const auto& [height, width] : std::vector<std::pair<int, int>>{{90, 250}, {251, 90}, {33, 32}, {40, 40}}) {
    for (const int color : {0, 1}) {
      INFO(height << " x " << width << ", color " << color);
      test::write_bytes(dir.path("a.jpg"), must(encode_image(test::gradient_image(height, width, 3, 2), ".jpg", 90)));
      ImageDecoder decoder;
      Image whole;
      const auto file = test::read_bytes(dir.path("a.jpg"));
      must(decoder.decode(file, color == 0 ? 1 : 3, whole));
      const auto png = must(packed_image(dir, "a.jpg", {.color = color, .center_crop = true, .encoding = ".png"}));
      CHECK(test::decode_with_opencv(png, color).pixels == central_square(whole).pixels);
    }
  }
}

TEST_CASE("each method of resizing is OpenCV's; 9 chooses by the sizes, 10 draws by the place in the list", "[data]") {
  const test::TempDir dir;
  const Image image = test::gradient_image(40, 60, 3, 3);
  test::write_bytes(dir.path("a.png"), must(encode_image(image, ".png", 3)));
  const auto packed = [&](int method, int edge, size_t place) {
    return must(packed_image(dir, "a.png", {.resize = edge, .inter_method = method, .encoding = ".png"}, place));
  };
  const auto resized = [&](Interpolation method, int height, int width) {
    Image out;
    must(resize_image(image, height, width, out, method));
    return must(encode_image(out, ".png", 95));
  };
  for (int method = 0; method <= 4; method++) {
    CHECK(packed(method, 20, 0) == resized(static_cast<Interpolation>(method), 20, 30));
  }
  CHECK(packed(9, 20, 0) == resized(Interpolation::kArea, 20, 30));
  CHECK(packed(9, 80, 0) == resized(Interpolation::kCubic, 80, 120));
  bool other = false;
  for (size_t place = 0; place < 20; place++) {
    CHECK(packed(10, 20, place) == packed(10, 20, place));
    other = other || packed(10, 20, place) != packed(10, 20, 0);
  }
  CHECK(other);
}

TEST_CASE("files are passed through with their bytes, or with restart markers if they are JPEG", "[data]") {
  const test::TempDir dir;
  const auto jpeg = test::make_jpeg(64, 64, {});
  test::write_bytes(dir.path("a.jpg"), jpeg);
  test::write_bytes(dir.path("a.png"), must(encode_image(test::gradient_image(9, 7, 3, 1), ".png", 3)));
  CHECK(must(packed_image(dir, "a.jpg", {.pass_through = true})) == jpeg);
  const PackOptions with_restarts{.pass_through = true, .restart_interval = 1};
  CHECK(must(packed_image(dir, "a.png", with_restarts)) == test::read_bytes(dir.path("a.png")));
  const auto rewritten = must(packed_image(dir, "a.jpg", with_restarts));
  CHECK(rewritten != jpeg);
  CHECK(equal_pixels(opencv_read(rewritten), opencv_read(jpeg)));
}

TEST_CASE("im2rec stores raw images with a header of 12 bytes and their pixels", "[data]") {
  const test::TempDir dir;
  const Image image = test::gradient_image(300, 7, 3, 1);
  test::write_bytes(dir.path("a.png"), must(encode_image(image, ".png", 3)));
  const auto raw = must(packed_image(dir, "a.png", {.raw = true}));
  std::vector<uint8_t> expected = {'D', 'T', 'R', 'W', 44, 1, 7, 0, 3, 0, 0, 0};  // 300 = 256 + 44
  expected.insert(expected.end(), image.pixels.begin(), image.pixels.end());
  CHECK(raw == expected);
  CHECK(must(packed_image(dir, "a.png", {.color = 0, .resize = 5, .raw = true})).size() == 12 + 5 * 214);
}

TEST_CASE("the first of several labels is in the header, or 0 as im2rec.py writes it", "[data]") {
  const test::TempDir dir;
  test::write_text(dir.path("a"), "bytes");
  for (const bool in_header : {true, false}) {
    ImagePacker packer({.pass_through = true, .pack_label = true, .label_in_header = in_header}, {.root = dir.path()},
                       Log::silent());
    std::vector<uint8_t> payload;
    must(packer.pack({7, {3, 4}, "a"}, 0, payload));
    const ImageRecord record = must(parse_image_record(payload));
    CHECK(record.label == (in_header ? 3.0f : 0.0f));
    CHECK(record.label_at(0) == 3.0f);
    CHECK(record.label_at(1) == 4.0f);
    must(packer.pack({7, {3}, "a"}, 0, payload));
    CHECK(must(parse_image_record(payload)).label == 3.0f);
  }
}

TEST_CASE("options of images that contradict each other are usage errors", "[data]") {
  for (const PackOptions& options :
       {PackOptions{.inter_method = 5}, PackOptions{.inter_method = 11}, PackOptions{.restart_interval = -1},
        PackOptions{.pass_through = true, .inter_method = 2}, PackOptions{.pass_through = true, .quality = 95},
        PackOptions{.pass_through = true, .encoding = ".jpg"}, PackOptions{.pass_through = true, .raw = true},
        PackOptions{.quality = 90, .raw = true}, PackOptions{.encoding = ".jpg", .raw = true},
        PackOptions{.restart_interval = 1, .raw = true}, PackOptions{.encoding = ".png", .restart_interval = 1}}) {
    const auto refused = check(options);
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::kUsage);
  }
  CHECK(check(PackOptions{.pass_through = true, .restart_interval = 1}));
  CHECK(check(PackOptions{.color = -1, .center_crop = true, .resize = 9, .raw = true}));
}
