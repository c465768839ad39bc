#include "data/loading/open.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <stdexcept>

#include "data/augmentation/augment.h"
#include "data/loading/mean_image.h"
#include "data/loading/synthetic.h"
#include "data/sources/idx_source.h"
#include "data/sources/record_source.h"
#include "make_images.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "tensor/ndarray_file.h"

using namespace dtrain;
using namespace dtrain::data;
using dtrain::test::must;

namespace {

std::string big_endian(std::initializer_list<uint32_t> words) {
  std::string text;
  for (const uint32_t word : words) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(word >> shift);
  }
  return text;
}

// Image i has all pixels i, label i % 10.
std::string idx_images(uint32_t count, uint32_t rows = 2, uint32_t columns = 3) {
  std::string text = big_endian({0x803, count, rows, columns});
  for (uint32_t i = 0; i < count; i++) text.append(rows * columns, static_cast<char>(i));
  return text;
}
std::string idx_labels(uint32_t count) {
  std::string text = big_endian({0x801, count});
  for (uint32_t i = 0; i < count; i++) text += static_cast<char>(i % 10);
  return text;
}

void write_gzip(const std::string& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
}

void write_mnist(const test::TempDir& dir) {
  test::write_text(dir.path("train-images-idx3-ubyte"), idx_images(20, 28, 28));
  write_gzip(dir.path("train-labels-idx1-ubyte.gz"), idx_labels(20));
  write_gzip(dir.path("t10k-images-idx3-ubyte.gz"), idx_images(5, 28, 28));
  test::write_text(dir.path("t10k-labels-idx1-ubyte"), idx_labels(5));
}

DataOptions in_directory(const test::TempDir& dir) {
  DataOptions options;
  options.data_dir = dir.path();
  return options;
}

struct Loaded {
  std::vector<float> data;
  float label = 0;
};
Loaded load(const Dataset& dataset, int64_t index, uint64_t seed = 1) {
  RandomStream random(seed, Use::kTest);
  Loaded loaded;
  loaded.data.resize(static_cast<size_t>(element_count(dataset.image())));
  must(dataset.load(index, random, loaded.data, {&loaded.label, 1}));
  return loaded;
}

bool mentions(const Error& error, const std::string& words) {
  return error.text().find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("idx files are read, plain and compressed", "[data]") {
  const test::TempDir dir;
  test::write_text(dir.path("i"), idx_images(12));
  write_gzip(dir.path("l.gz"), idx_labels(12));
  const auto source = must(open_idx(dir.path("i"), dir.path("l.gz")));
  CHECK(source->size() == 12);
  ReadScratch scratch;
  CHECK(must(test::read_label(*source, 11, scratch)) == 1.0f);
  CHECK(scratch.size() == ImageSize{2, 3});
  CHECK(must(scratch.decode())->pixels == std::vector<uint8_t>(6, 11));
}

TEST_CASE("idx files with a wrong magic, size or count are refused", "[data]") {
  const test::TempDir dir;
  const auto open = [&](const std::string& images, const std::string& labels) {
    test::write_text(dir.path("i"), images);
    test::write_text(dir.path("l"), labels);
    return open_idx(dir.path("i"), dir.path("l"));
  };
  CHECK(open(idx_images(3), idx_labels(3)));
  CHECK(mentions(open(idx_images(3), idx_labels(4)).error(), "3 images"));
  CHECK(!open(idx_labels(3), idx_labels(3)));
  CHECK(!open(idx_images(3), idx_images(3)));
  CHECK(!open(idx_images(0), idx_labels(0)));
  CHECK(!open(idx_images(3) + "x", idx_labels(3)));
  CHECK(!open(big_endian({0x803, 0xffffffff, 0xffffffff, 0xffffffff}), idx_labels(3)));
  const std::string images = idx_images(3), labels = idx_labels(3);
  for (size_t length = 0; length < images.size(); length++) CHECK(!open(images.substr(0, length), labels));
  for (size_t length = 0; length < labels.size(); length++) CHECK(!open(images, labels.substr(0, length)));
  CHECK(open_idx(dir.path("absent"), dir.path("l")).error().code == Code::kNotFound);
}

TEST_CASE("a damaged gzip file is an error", "[data]") {
  const test::TempDir dir;
  write_gzip(dir.path("a.gz"), idx_images(30, 28, 28));
  test::write_text(dir.path("l"), idx_labels(30));
  must(open_idx(dir.path("a.gz"), dir.path("l")));
  const auto whole = test::read_bytes(dir.path("a.gz"));
  const auto open = [&](const std::vector<uint8_t>& bytes) {
    test::write_bytes(dir.path("b.gz"), bytes);
    return open_idx(dir.path("b.gz"), dir.path("l"));
  };
  for (size_t length = 0; length < whole.size(); length++) {
    INFO("length " << length);
    REQUIRE(!open({whole.begin(), whole.begin() + static_cast<long>(length)}));
  }
  // A flip in the header's time or in a bit that only fills a byte changes nothing; all others are found by the
  // checksum.
  ReadScratch scratch;
  size_t unharmed = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); bit++) {
    std::vector<uint8_t> flipped = whole;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const auto opened = open(flipped);
    if (!opened) continue;
    unharmed++;
    REQUIRE(bit / 8 < whole.size() - 8);  // the checksum and the size
    for (int64_t i = 0; i < 30; i++) {
      must(test::read_label(**opened, i, scratch));
      REQUIRE(must(scratch.decode())->pixels == std::vector<uint8_t>(28 * 28, static_cast<uint8_t>(i)));
    }
  }
  CHECK(unharmed < 4 * whole.size());
}

// 10 MB of zeros are 10 kB of gzip.
TEST_CASE("a gzip file is not decompressed beyond the size that its header announces", "[data]") {
  const test::TempDir dir;
  test::write_text(dir.path("l"), idx_labels(3));
  write_gzip(dir.path("more.gz"), idx_images(3) + std::string(10'000'000, 'x'));
  const auto more = open_idx(dir.path("more.gz"), dir.path("l"));
  REQUIRE(!more);
  CHECK(mentions(more.error(), "the header announces 34 bytes, but the file has more"));
  write_gzip(dir.path("huge.gz"), big_endian({0x803, 70'000, 128, 128}) + std::string(1000, 'x'));
  const auto huge = open_idx(dir.path("huge.gz"), dir.path("l"));
  REQUIRE(!huge);
  CHECK(mentions(huge.error(), "huge.gz: the header announces 1146880000 bytes, more than the limit of 1073741824"));
}

TEST_CASE("the pixels of idx files are scaled by 1/255", "[data]") {
  const test::TempDir dir;
  write_mnist(dir);
  const DataSets sets = must(open_dataset(in_directory(dir), Log::silent()));
  CHECK(sets.type == "idx");  // MNIST itself has 60000 pictures
  CHECK(sets.classes == 10);
  CHECK(sets.train->size() == 20);
  CHECK(sets.validation->size() == 5);
  CHECK(sets.train->image() == Shape{1, 28, 28});
  CHECK(load(*sets.train, 17).data[5] == Approx(17.0 / 255));
  CHECK(load(*sets.train, 17).label == 7.0f);

  DataOptions scaled = in_directory(dir);
  scaled.scale = 1.0f / 256;
  CHECK(load(*must(open_dataset(scaled, Log::silent())).train, 17).data[5] == 17.0f / 256);
}

TEST_CASE("files that the data directory lacks are named, and the message recommends only files that exist", "[data]") {
  const test::TempDir dir;
  write_mnist(dir);
  std::filesystem::remove(dir.path("train-labels-idx1-ubyte.gz"));
  std::filesystem::remove(dir.path("t10k-labels-idx1-ubyte"));
  const Error error = open_dataset(in_directory(dir), Log::silent()).error();
  CHECK(error.code == Code::kNotFound);
  CHECK(mentions(error, "train-labels-idx1-ubyte[.gz], t10k-labels-idx1-ubyte[.gz] are missing"));
  CHECK(!mentions(error, "data get"));

  DataOptions absent;
  absent.data_dir = dir.path("nowhere");
  CHECK(open_dataset(absent, Log::silent()).error().code == Code::kNotFound);
  std::filesystem::create_directories(absent.data_dir);
  CHECK(mentions(open_dataset(absent, Log::silent()).error(), "dtrain im2rec --recursive PREFIX " + absent.data_dir));
  absent.data_type = "cifar10";
  CHECK(mentions(open_dataset(absent, Log::silent()).error(), "train.rec, test.rec or val.rec are missing"));
  absent.data_type = "imagenet";
  CHECK(mentions(open_dataset(absent, Log::silent()).error(), "train.rec, val.rec are missing"));
}

TEST_CASE("the error for a file of another kind names the kind and recommends im2rec", "[data]") {
  const test::TempDir dir;
  const auto refusal = [&](const std::string& content) {
    test::write_text(dir.path("a.rec"), content);
    return open_records({.paths = {dir.path("a.rec")}, .index = "", .channels = 3}, Log::silent()).error().message;
  };
  CHECK_THAT(
      refusal("0\t1.000000\tcat.jpg\n"),
      Catch::Contains(
          "a.rec: this is a text file, not a RecordIO file; pack images with 'dtrain im2rec LIST ROOT OUT.rec'"));
  CHECK_THAT(refusal("\xff\xd8\xff\xe0"), Catch::Contains("this is a JPEG image"));
  CHECK_THAT(refusal(idx_images(3)), Catch::Contains("this is an idx file of images"));
  CHECK_THAT(refusal(""), Catch::Contains("this is an empty file"));
  CHECK(!std::filesystem::exists(dir.path("a.idx")));
  std::filesystem::create_directories(dir.path("cats"));
  CHECK_THAT(list_record_files(dir.path("cats")).error().message,
             Catch::Contains("cats: the directory contains no .rec file; pack images first: 'dtrain im2rec"));
}

TEST_CASE("missing flags are a usage error", "[data]") {
  const test::TempDir dir;
  write_mnist(dir);
  const auto refused = [](const DataOptions& options) {
    const auto sets = open_dataset(options, Log::silent());
    return !sets && sets.error().code == Code::kUsage;
  };
  CHECK(refused(DataOptions()));
  DataOptions options = in_directory(dir);
  options.data_type = "svhn";
  CHECK(refused(options));
  options = in_directory(dir);
  options.image_shape = {3, 28, 28};
  CHECK(refused(options));
  options.image_shape = {1, 0, 28};
  CHECK(refused(options));
  options.image_shape = {1, 28};
  CHECK(refused(options));
  options = in_directory(dir);
  options.rgb_std = {0.0f};
  CHECK(refused(options));
  options = in_directory(dir);
  options.training.fill_value = 256;
  CHECK(refused(options));
  test::write_record_file(dir.path("a.rec"), 2, 8, 8, 3, 2);
  DataOptions channels;
  channels.data_train = dir.path("a.rec");
  channels.image_shape = {3, 8, 8};
  for (const std::vector<float>& values : {std::vector<float>{128}, {1, 2}}) {
    channels.rgb_mean = values;
    CHECK(refused(channels));
  }
  channels.rgb_mean = {0};  // for all channels
  CHECK_FALSE(refused(channels));
  channels.rgb_std = {58};
  CHECK(refused(channels));
  options = DataOptions();
  options.data_train = dir.path("a.rec");
  CHECK(refused(options));  // no --image-shape
}

TEST_CASE("pictures of 32 x 32 in ten classes are cifar10", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), 17, 32, 32, 3, 10);
  test::write_record_file(dir.path("test.rec"), 3, 32, 32, 3, 10);
  const DataSets sets = must(open_dataset(in_directory(dir), Log::silent()));
  CHECK(sets.type == "cifar10");
  CHECK(sets.classes == 10);
  CHECK(sets.train->size() == 17);
  CHECK(sets.validation->size() == 3);
  CHECK(sets.train->image() == Shape{3, 28, 28});
  const Image fourth = test::gradient_image(32, 32, 3, 4);
  const uint8_t* pixel = fourth.at(2, 2);  // the corner of the central crop
  CHECK(load(*sets.train, 4).data[0] == Approx(pixel[2] - 123.68).epsilon(1e-6));
  CHECK(sets.train->describe(4).find("record 4 at offset") != std::string::npos);

  DataOptions hundred = in_directory(dir);
  hundred.data_type = "cifar100";
  CHECK(must(open_dataset(hundred, Log::silent())).classes == 100);
}

TEST_CASE("named record files are used, several are numbered through, and validation data may be missing", "[data]") {
  const test::TempDir dir;
  std::filesystem::create_directories(dir.path("parts"));
  test::write_record_file(dir.path("parts/b.rec"), 2, 8, 8, 1, 10);
  test::write_record_file(dir.path("parts/a.rec"), 3, 8, 8, 1, 10);
  DataOptions options = in_directory(dir);
  options.data_train = "parts";
  options.image_shape = {1, 8, 8};
  const DataSets sets = must(open_dataset(options, Log::silent()));
  CHECK(sets.train->size() == 5);
  CHECK(sets.validation == nullptr);
  CHECK(sets.classes == 0);
  CHECK(load(*sets.train, 2).label == 2.0f);  // the third of a.rec
  CHECK(load(*sets.train, 3).label == 0.0f);  // the first of b.rec
  CHECK(sets.train->describe(3).find("b.rec: record 0") != std::string::npos);
  options.data_val = "parts/b.rec;parts/a.rec";
  CHECK(load(*must(open_dataset(options, Log::silent())).validation, 2).label == 0.0f);
  options.data_train = "parts/absent.rec";
  const Error error = open_dataset(options, Log::silent()).error();
  CHECK(error.code == Code::kNotFound);
  CHECK(mentions(error, "absent.rec: no such file"));
}

TEST_CASE("random crops and mirrors are for training only", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), 2, 32, 32, 3, 10);
  std::filesystem::copy(dir.path("train.rec"), dir.path("test.rec"));
  DataOptions options = in_directory(dir);
  options.training.random_crop = options.training.random_mirror = true;
  options.training.pad = 2;
  const DataSets sets = must(open_dataset(options, Log::silent()));
  CHECK(load(*sets.train, 0, 1).data != load(*sets.train, 0, 2).data);
  CHECK(load(*sets.validation, 0, 1).data == load(*sets.validation, 0, 2).data);
}

// 30 x 40 pictures: a training crop of the whole size, a validation crop after val_resize.
TEST_CASE("each set is resized by its own flag, the mean image as the training set", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), 3, 30, 40, 3, 10);
  std::filesystem::copy(dir.path("train.rec"), dir.path("test.rec"));
  DataOptions options = in_directory(dir);
  options.rgb_mean = {0, 0, 0};
  options.image_shape = {3, 10, 10};
  const auto central = [](int resize) {
    const AugmentOptions cut{
        .image = {3, 10, 10}, .distortion = {.resize = resize}, .mean = {0, 0, 0}, .std = {1, 1, 1}};
    Augmenter::Scratch scratch;
    RandomStream unused(1, Use::kTest);
    std::vector<float> out(300);
    const Image image = test::gradient_image(30, 40, 3, 1);
    WholePicture picture(image);
    must(Augmenter(cut).apply(picture, unused, scratch, out));
    return out;
  };
  options.val_resize = 12;
  const DataSets validation_only = must(open_dataset(options, Log::silent()));
  CHECK(load(*validation_only.train, 1).data == central(0));
  CHECK(load(*validation_only.validation, 1).data == central(12));
  options.training.resize = 20;
  options.training.interpolation = Interpolation::kRandom;  // does not affect validation and the mean image
  options.mean_img = "mean.bin";
  const DataSets sets = must(open_dataset(options, Log::silent()));
  const auto first = load(*sets.validation, 1, 1).data;
  CHECK(first == load(*sets.validation, 1, 2).data);
  CHECK(first[0] - (central(12)[0]) ==
        Approx(load(*sets.validation, 0).data[0] - load(*validation_only.validation, 0).data[0]));
}

TEST_CASE("the colors of gray pictures cannot be distorted", "[data]") {
  const test::TempDir dir;
  write_mnist(dir);
  DataOptions options = in_directory(dir);
  options.training.color.s_max = 50;
  const Error error = open_dataset(options, Log::silent()).error();
  CHECK(error.code == Code::kUsage);
  CHECK(mentions(error, "--aug-level 2 and 3"));
  CHECK(mentions(error, "these have 1"));
}

TEST_CASE("rotated pictures are not resampled from nearest neighbors", "[data]") {
  const test::TempDir dir;
  write_mnist(dir);
  DataOptions options = in_directory(dir);
  options.training.interpolation = Interpolation::kNearest;
  CHECK(open_dataset(options, Log::silent()));
  options.training.rotate_max = 3;
  CHECK(mentions(open_dataset(options, Log::silent()).error(), "--inter-method 0"));
}

TEST_CASE("random changes to the numbers of each picture cannot be made on a device", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), 2, 32, 32, 3, 10);
  std::filesystem::copy(dir.path("train.rec"), dir.path("test.rec"));
  DataOptions options = in_directory(dir);
  options.training.random_contrast = 0.1;
  const DataSets sets = must(open_dataset(options, Log::silent()));
  CHECK(sets.train->normalisation() == nullptr);
  CHECK(sets.validation->normalisation() != nullptr);
}

TEST_CASE("the error of a record that cannot be decoded names file, offset and reason", "[data]") {
  const test::TempDir dir;
  const auto offsets = test::write_record_file(dir.path("a.rec"), 3, 8, 8, 3, 2, ".jpg");
  auto bytes = test::read_bytes(dir.path("a.rec"));
  bytes[static_cast<size_t>(offsets[1]) + 8 + 24] = 0;  // the JPEG's first byte
  test::write_bytes(dir.path("a.rec"), bytes);
  const auto source = must(open_records({.paths = {dir.path("a.rec")}, .index = "", .channels = 3}, Log::silent()));
  ReadScratch scratch;
  CHECK(test::read_label(*source, 0, scratch));
  const Error error = test::read_label(*source, 1, scratch).error();
  CHECK(error.code == Code::kData);
  CHECK(mentions(error, fmt::format("a.rec: record 1 at offset {}: not an image", offsets[1])));
}

TEST_CASE("records with several labels are read with --label-width", "[data]") {
  const test::TempDir dir;
  const auto encoded = must(encode_image(test::gradient_image(8, 8, 3, 1), ".png", 3));
  std::vector<uint8_t> file;
  for (const std::vector<float>& labels : {std::vector<float>{4, 1}, {7, 0}}) {
    std::vector<uint8_t> payload;
    append_image_record(payload, 1, labels, encoded);
    must(append_record(file, payload));
  }
  test::write_bytes(dir.path("a.rec"), file);
  DataOptions options;
  options.data_train = dir.path("a.rec");
  options.image_shape = {3, 8, 8};
  options.label_width = 2;
  const DataSets sets = must(open_dataset(options, Log::silent()));
  CHECK(sets.train->label_width() == 2);
  RandomStream random(1, Use::kTest);
  std::vector<float> pixels(3 * 8 * 8), labels(2);
  must(sets.train->load(1, random, pixels, labels));
  CHECK(labels == std::vector<float>{7, 0});

  // The loader takes those that the network reads, in its order.
  LoaderOptions loading{.share = {0, 2}, .batch_size = 2, .shuffle = false};
  loading.labels = {{.name = "parity", .position = 1, .classes = 2}, {.name = "digit", .position = 0, .classes = 10}};
  Loader loader(sets.train, loading, Log::silent());
  loader.start(0);
  CHECK(std::ranges::equal(must(loader.next())->labels, std::vector<float>{1, 4, 0, 7}));
  loading.labels[1].classes = 7;
  Loader strict(sets.train, loading, Log::silent());
  strict.start(0);
  CHECK(mentions(strict.next().error(), "label 7 for 'digit' is not in the range 0 to 6"));

  options.label_width = 1;
  const DataSets one = must(open_dataset(options, Log::silent()));
  CHECK(
      mentions(one.train->load(0, random, pixels, labels).error(), "the record has 2 labels, but --label-width is 1"));
  options.label_width = 3;
  const DataSets three = must(open_dataset(options, Log::silent()));
  labels.resize(3);
  CHECK(mentions(three.train->load(0, random, pixels, labels).error(), "has 2 labels, but --label-width is 3"));
}

TEST_CASE("a data set whose pictures have fewer labels than asked for is refused", "[data]") {
  const test::TempDir dir;
  test::write_text(dir.path("train-images-idx3-ubyte"), idx_images(12));
  test::write_text(dir.path("train-labels-idx1-ubyte"), idx_labels(12));
  DataOptions options;
  options.data_train = dir.path("train-images-idx3-ubyte");
  options.image_shape = {1, 2, 3};
  options.label_width = 2;
  CHECK(mentions(open_dataset(options, Log::silent()).error(), "--label-width 2: the pictures of"));
}

TEST_CASE("an empty record file is an error", "[data]") {
  const test::TempDir dir;
  test::write_bytes(dir.path("a.rec"), {});
  CHECK(open_records({.paths = {dir.path("a.rec")}, .index = "", .channels = 3}, Log::silent()).error().code ==
        Code::kData);
}

// The test adds up the pictures itself, one by one.
TEST_CASE("the mean image is made once, from central crops, whatever the number of threads", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), 9, 30, 32, 3, 10);
  std::filesystem::copy(dir.path("train.rec"), dir.path("test.rec"));
  const auto source = must(open_records({.paths = {dir.path("train.rec")}, .index = "", .channels = 3}, Log::silent()));
  const Shape shape = {3, 28, 28};
  const auto one = must(mean_image(dir.path("1.bin"), shape, {}, source, 1, Log::silent()));
  const auto four = must(mean_image(dir.path("4.bin"), shape, {}, source, 4, Log::silent()));
  CHECK(test::read_bytes(dir.path("1.bin")) == test::read_bytes(dir.path("4.bin")));
  CHECK(test::read_bytes(dir.path("1.bin")).size() == 9504);  // an NDArray file with one float32 array [3,28,28]
  double sum = 0;
  for (int i = 0; i < 9; i++) sum += test::gradient_image(30, 32, 3, i).at(1, 2)[2];
  CHECK((*one)[0] == Approx(sum / 9));

  DataOptions options = in_directory(dir);
  options.image_shape = shape;
  options.mean_img = "mean.bin";
  options.training.random_crop = true;
  const DataSets sets = must(open_dataset(options, Log::silent()));
  CHECK(std::filesystem::exists(dir.path("mean.bin")));
  CHECK(test::read_bytes(dir.path("mean.bin")) == test::read_bytes(dir.path("1.bin")));
  const float pixel = test::gradient_image(30, 32, 3, 4).at(1, 2)[2];
  CHECK(load(*sets.validation, 4).data[0] == Approx(pixel - (*four)[0]).margin(1e-4));
}

TEST_CASE("a mean image of another shape is refused", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), 2, 32, 32, 3, 10);
  const auto source = must(open_records({.paths = {dir.path("train.rec")}, .index = "", .channels = 3}, Log::silent()));
  must(mean_image(dir.path("mean.bin"), {3, 28, 28}, {}, source, 1, Log::silent()));
  const Error error = mean_image(dir.path("mean.bin"), {3, 32, 32}, {}, source, 1, Log::silent()).error();
  CHECK(error.code == Code::kData);
  CHECK(mentions(error, "(3, 28, 28)"));
}

TEST_CASE("a mean image that cannot be written is refused before a picture is read", "[data]") {
  class Unreadable : public ImageSource {
   public:
    [[nodiscard]] int64_t size() const override { return 100; }
    [[nodiscard]] int channels() const override { return 3; }
    Result<> read(int64_t, ReadScratch&, std::span<float>) const override {
      throw std::logic_error("a picture was read");
    }
    [[nodiscard]] std::string describe(int64_t) const override { return "none"; }
  };
  const test::TempDir dir;
  const auto source = std::make_shared<const Unreadable>();
  const Error error = mean_image(dir.path("absent/mean.bin"), {3, 28, 28}, {}, source, 1, Log::silent()).error();
  CHECK(mentions(error, "absent/mean.bin"));
  CHECK(mentions(error, "No such file or directory"));
}

TEST_CASE("synthetic data repeats one batch, a different one for each rank", "[data]") {
  const SyntheticOptions options{
      .image = {1, 4, 4}, .classes = {3}, .batch_size = 5, .batches = 7, .seed = 1, .rank = 0};
  const auto first = synthetic(options);
  CHECK(first->size() == 35);
  CHECK(load(*first, 2).data == load(*first, 32).data);
  CHECK(load(*first, 2).label == load(*first, 32).label);
  CHECK(load(*first, 2).data != load(*first, 3).data);
  for (const float x : load(*first, 2).data) CHECK((x >= -1.0f && x <= 1.0f));
  SyntheticOptions other = options;
  other.rank = 1;
  CHECK(load(*synthetic(other), 2).data != load(*first, 2).data);
}

TEST_CASE("the real MNIST opens", "[data]") {
  const char* root = std::getenv("DTRAIN_TEST_DATA");
  if (root == nullptr) {
    std::cout << "skipped: DTRAIN_TEST_DATA does not name the folder of the real data\n";
    return;
  }
  DataOptions options;
  options.data_dir = std::string(root) + "/mnist";
  const DataSets sets = must(open_dataset(options, Log::silent()));
  CHECK(sets.train->size() == 60000);
  CHECK(sets.validation->size() == 10000);
  // The first training image is a 5; its sum of pixels is known.
  const Loaded first = load(*sets.train, 0);
  CHECK(first.label == 5.0f);
  double sum = 0;
  for (const float x : first.data) sum += x * 255;
  CHECK(sum == Approx(27525));
  CHECK(load(*sets.validation, 0).label == 7.0f);
}
