#include "dataset/stat.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "data/make_images.h"
#include "images/image_facts.h"
#include "job/flags/flags.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::dataset;
using Catch::Matchers::Contains;
using dtrain::test::must;

namespace {

std::vector<uint8_t> encoded_image(int height, int width, int channels, const std::string& extension) {
  return must(images::encode_image(test::gradient_image(height, width, channels, 1), extension, 90));
}

// Color JPEGs of 20 x 30 with the labels 0, 1, 2, 0; then a gray one, a PNG, a text, and a JPEG that is cut.
void write_mixture(const std::string& path) {
  std::vector<uint8_t> file;
  const auto add = [&](float label, Bytes image) {
    must(data::append_record(file, test::image_payload(7, label, image)));
  };
  const auto color = encoded_image(20, 30, 3, ".jpg");
  for (const float label : {0.0f, 1.0f, 2.0f, 0.0f}) add(label, color);
  add(0, encoded_image(40, 10, 1, ".jpg"));
  add(1, encoded_image(5, 6, 3, ".png"));
  add(1, as_bytes("this is no image"));
  add(1, Bytes(color).first(color.size() / 2));
  test::write_bytes(path, file);
}

}  // namespace

TEST_CASE("data stat counts what a record file has", "[dataset]") {
  const test::TempDir dir;
  write_mixture(dir.path("a.rec"));
  const DataStat stat = must(data_stat({dir.path("a.rec")}, {.threads = 2}, Log::silent()));
  CHECK(stat.files[0].records == 8);
  CHECK(stat.images == 7);  // the header of the JPEG that is cut is sound
  CHECK(stat.labels == std::map<float, int64_t>{{0, 3}, {1, 3}, {2, 1}});
  CHECK(stat.formats == std::map<std::string, int64_t>{{"JPEG, color", 5}, {"JPEG, gray", 1}, {"PNG", 1}});
  CHECK(stat.sizes == std::map<std::pair<int64_t, int64_t>, int64_t>{{{20, 30}, 5}, {{40, 10}, 1}, {{5, 6}, 1}});
  CHECK(stat.broken_count == 1);
  CHECK_THAT(stat.text(), Contains("labels: 3 different labels from 0 to 2; images per label: 1 to 3, median 3") &&
                              Contains("shorter edge 5 to 20, median 20") && Contains("broken records: 1"));
  const auto json = nlohmann::json::parse(stat.json());
  CHECK(json["height"]["median"] == 20);
  CHECK(json["labels"]["1"] == 3);
  CHECK(json["broken"][0]["reason"].get<std::string>().find("not an image") != std::string::npos);

  const DataStat decoded = must(data_stat({dir.path("a.rec")}, {.decodes = true}, Log::silent()));
  CHECK(decoded.broken_count == 2);
  CHECK(decoded.broken[0].offset < decoded.broken[1].offset);
}

// Large images are told by their first bytes alone; the numbers must be the same as if they were read.
TEST_CASE("data stat finds broken places between records and reads large images by their head", "[dataset]") {
  const test::TempDir dir;
  auto offsets = test::write_record_file(dir.path("a.rec"), 5, 300, 400, 3, 5);
  auto bytes = test::read_bytes(dir.path("a.rec"));
  CHECK(offsets[1] > 20'000);
  bytes[static_cast<size_t>(offsets[2])] ^= 1;
  test::write_bytes(dir.path("a.rec"), bytes);
  const DataStat stat = must(data_stat({dir.path("a.rec")}, {.threads = 2}, Log::silent()));
  CHECK(stat.images == 4);
  CHECK(stat.broken_count == 1);
  CHECK(stat.broken[0].offset == offsets[2]);
  CHECK(stat.sizes == std::map<std::pair<int64_t, int64_t>, int64_t>{{{300, 400}, 4}});
  const DataStat decoded = must(data_stat({dir.path("a.rec")}, {.decodes = true}, Log::silent()));
  CHECK(decoded.image_bytes == stat.image_bytes);
  CHECK(data_stat({dir.path("none.rec")}, {}, Log::silent()).error().code == Code::kNotFound);
  test::write_text(dir.path("b.rec"), "a text");
  CHECK(data_stat({dir.path("b.rec")}, {}, Log::silent()).error().code == Code::kData);
}

TEST_CASE("an image's head is cut anywhere and has any bit flipped without harm", "[dataset]") {
  const std::vector<uint8_t> jpeg = encoded_image(8, 8, 3, ".jpg");
  CHECK(must(images::image_facts(jpeg)).colors == "color");
  for (size_t length = 0; length < jpeg.size(); length++) {
    const auto facts = images::image_facts(Bytes(jpeg).first(length));
    CHECK((facts || facts.error().code == Code::kData));
  }
  // With an EXIF segment, big-endian, that says 6.
  std::vector<uint8_t> turned = {0xff, 0xd8, 0xff, 0xe1, 0,  34, 'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0,
                                 8,    0,    1,    1,    18, 0,  3,   0,   0,   0,   1, 0, 6,   0,   0, 0,  0, 0, 0};
  turned.insert(turned.end(), jpeg.begin() + 2, jpeg.end());
  CHECK(must(images::image_facts(turned)).orientation == 6);
  for (size_t bit = 0; bit < 8 * 200; bit++) {
    std::vector<uint8_t> flipped = turned;
    flipped[bit / 8] = static_cast<uint8_t>(flipped[bit / 8] ^ 1 << bit % 8);
    const auto facts = images::image_facts(flipped);
    CHECK((facts || facts.error().code == Code::kData));
  }
}

// The images of the file are 16 x 16 without any change, so the sheet has their pixels.
TEST_CASE("the sheet has the training images, the same for every number of threads", "[dataset]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("a.rec"), 5, 16, 16, 3, 5);
  job::Flags flags;
  flags.data.data_train = dir.path("a.rec");
  flags.job.network.image_shape = {3, 16, 16};
  flags.job.network.num_classes = 5;
  flags.job.augment.shuffle = false;
  must(write_sheet(flags, 4, dir.path("plain.png"), Log::silent()));
  images::ImageDecoder decoder;
  images::Image sheet;
  const auto png = test::read_bytes(dir.path("plain.png"));
  must(decoder.decode(png, 3, sheet));
  CHECK(sheet.width == 2 * 20 + 4);
  CHECK(sheet.height == 2 * 34 + 4);
  const images::Image second = test::gradient_image(16, 16, 3, 1);  // at the right of the first
  for (int y = 0; y < 16; y++) CHECK(std::equal(second.at(y, 0), second.at(y, 0) + 48, sheet.at(y + 4, 24)));

  flags.job.augment.mirror = true;
  must(write_sheet(flags, 4, dir.path("mirrored.png"), Log::silent()));
  const auto mirrored = test::read_bytes(dir.path("mirrored.png"));
  must(decoder.decode(mirrored, 3, sheet));
  CHECK(std::equal(second.at(3, 0), second.at(3, 1), sheet.at(7, 24 + 15)));

  flags.job.augment.shuffle = flags.job.augment.random_mirror = flags.job.augment.random_crop = true;
  flags.job.augment.pad_size = 4;
  flags.job.augment.brightness = 0.3;
  must(write_sheet(flags, 9, dir.path("one.png"), Log::silent()));
  flags.data.data_threads = 3;
  must(write_sheet(flags, 9, dir.path("three.png"), Log::silent()));
  CHECK(test::read_bytes(dir.path("one.png")) == test::read_bytes(dir.path("three.png")));
  flags.job.seed = 2;
  must(write_sheet(flags, 9, dir.path("other.png"), Log::silent()));
  CHECK(test::read_bytes(dir.path("one.png")) != test::read_bytes(dir.path("other.png")));
}

// Three chunks of two records each, which stay neighbors.
TEST_CASE("the sheet has the order of training with chunks, and any labels", "[dataset]") {
  const test::TempDir dir;
  std::vector<uint8_t> file;
  for (int i = 0; i < 6; i++) {
    std::vector<uint8_t> image = must(images::encode_image(test::gradient_image(8, 8, 3, i), ".jpg", 95));
    image.resize(1 << 20);  // decoders ignore what follows the image
    must(
        data::append_record(file, test::image_payload(static_cast<uint64_t>(i), -0.5F * static_cast<float>(i), image)));
  }
  test::write_bytes(dir.path("a.rec"), file);
  job::Flags flags;
  flags.data.data_train = dir.path("a.rec");
  flags.job.network.image_shape = {3, 8, 8};
  flags.job.network.num_classes = 5;
  must(write_sheet(flags, 6, dir.path("records.png"), Log::silent()));
  flags.job.augment.shuffle_chunk = 2;
  must(write_sheet(flags, 6, dir.path("chunks.png"), Log::silent()));
  CHECK(test::read_bytes(dir.path("records.png")) != test::read_bytes(dir.path("chunks.png")));
}

// The batches of the array are of 64 images, so 70 are two of them. Numbers are those of the pixels.
TEST_CASE("the array has the training images, normalized, and not more than there are", "[dataset]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("a.rec"), 70, 8, 8, 3, 5);
  job::Flags flags;
  flags.data.data_train = dir.path("a.rec");
  flags.job.network.image_shape = {3, 8, 8};
  flags.job.network.num_classes = 5;
  flags.job.augment.shuffle = false;
  flags.job.augment.rgb_mean = {10, 20, 30};
  must(write_array(flags, 100, dir.path("a.npy"), Log::silent()));
  const auto bytes = test::read_bytes(dir.path("a.npy"));
  constexpr size_t kImage = 3 * 8 * 8;
  const size_t header = bytes.size() - 70 * kImage * sizeof(float);
  CHECK(header == 128);
  CHECK(std::string(bytes.begin(), bytes.begin() + 128).find("'shape': (70, 3, 8, 8)") != std::string::npos);
  for (const int row : {0, 63, 64, 69}) {
    const images::Image image = test::gradient_image(8, 8, 3, row);
    std::vector<float> numbers(kImage);
    std::memcpy(numbers.data(), bytes.data() + header + row * kImage * sizeof(float), kImage * sizeof(float));
    for (int k = 0; k < 3; k++) {
      CHECK(numbers[static_cast<size_t>(k) * 64 + 8 + 3] == static_cast<float>(image.at(1, 3)[2 - k] - 10 * (k + 1)));
    }
  }
  const auto refused = write_array(flags, 1, dir.path("none/a.npy"), Log::silent());
  CHECK(!refused);
}
