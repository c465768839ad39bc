#include "data/loading/open.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "images/augmentation/augment.h"
#include "load_image.h"
#include "make_data_sets.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

DataOptions in_directory(const std::string& path) {
  DataOptions options;
  options.data_dir = path;
  return options;
}

}  // namespace

TEST_CASE("the pixels of idx files are scaled by 1/255", "[data]") {
  const test::TempDir dir;
  test::write_mnist(dir);
  const DataSets sets = must(open_dataset(in_directory(dir.path()), Log::silent()));
  CHECK(sets.classes == 10);
  CHECK(sets.train->size() == 20);
  CHECK(sets.validation->size() == 5);
  CHECK(sets.train->image() == Shape{1, 28, 28});
  CHECK(test::load(*sets.train, 17).data[5] == Approx(17.0 / 255));
  CHECK(test::load(*sets.train, 17).label == 7.0f);

  DataOptions scaled = in_directory(dir.path());
  scaled.scale = 1.0f / 256;
  CHECK(test::load(*must(open_dataset(scaled, Log::silent())).train, 17).data[5] == 17.0f / 256);
}

TEST_CASE("files that the data directory lacks are named, and so is how to get data", "[data]") {
  const test::TempDir dir;
  test::write_mnist(dir);
  std::filesystem::remove(dir.path("train-labels-idx1-ubyte.gz"));
  std::filesystem::remove(dir.path("t10k-labels-idx1-ubyte"));
  const Error error = open_dataset(in_directory(dir.path()), Log::silent()).error();
  CHECK(error.code == Code::kNotFound);
  CHECK_THAT(error.text(), Catch::Contains("train-labels-idx1-ubyte[.gz], t10k-labels-idx1-ubyte[.gz] are missing"));
  CHECK_THAT(error.text(), Catch::Contains("'dtrain data get mnist'") && Catch::Contains("build/quickstart-data"));

  DataOptions absent;
  absent.data_dir = dir.path("nowhere");
  CHECK(open_dataset(absent, Log::silent()).error().code == Code::kNotFound);
  std::filesystem::create_directories(absent.data_dir);
  CHECK_THAT(open_dataset(absent, Log::silent()).error().text(),
             Catch::Contains("dtrain im2rec --recursive PREFIX " + absent.data_dir));
  std::filesystem::create_directories(absent.data_dir + "/set");
  CHECK_THAT(open_dataset(absent, Log::silent()).error().text(),
             Catch::Contains(fmt::format("has one subdirectory, set: if the data set is in it, give --data-dir {}/set",
                                         absent.data_dir)));
  absent.data_type = "cifar10";
  CHECK_THAT(open_dataset(absent, Log::silent()).error().text(),
             Catch::Contains("train.rec, test.rec or val.rec are missing"));
  absent.data_type = "imagenet";
  CHECK_THAT(open_dataset(absent, Log::silent()).error().text(), Catch::Contains("train.rec, val.rec are missing"));
}

TEST_CASE("missing flags are a usage error", "[data]") {
  const test::TempDir dir;
  test::write_mnist(dir);
  const auto refused = [](const DataOptions& options) {
    const auto sets = open_dataset(options, Log::silent());
    return !sets && sets.error().code == Code::kUsage;
  };
  CHECK(refused(DataOptions()));
  DataOptions options = in_directory(dir.path());
  options.data_type = "svhn";
  CHECK(refused(options));
  options = in_directory(dir.path());
  options.image_shape = {3, 28, 28};
  CHECK(refused(options));
  options.image_shape = {1, 0, 28};
  CHECK(refused(options));
  options.image_shape = {1, 28};
  CHECK(refused(options));
  options = in_directory(dir.path());
  options.rgb_std = {0.0f};
  CHECK(refused(options));
  options = in_directory(dir.path());
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

TEST_CASE("images of 32 x 32 in ten classes are cifar10", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), 17, 32, 32, 3, 10);
  test::write_record_file(dir.path("test.rec"), 3, 32, 32, 3, 10);
  const DataSets sets = must(open_dataset(in_directory(dir.path()), Log::silent()));
  CHECK(sets.classes == 10);
  CHECK(sets.train->size() == 17);
  CHECK(sets.validation->size() == 3);
  CHECK(sets.train->image() == Shape{3, 28, 28});
  const Image fourth = test::gradient_image(32, 32, 3, 4);
  const uint8_t* pixel = fourth.at(2, 2);  // the corner of the central crop
  CHECK(test::load(*sets.train, 4).data[0] == Approx(pixel[2] - 123.68).epsilon(1e-6));
  CHECK(sets.train->describe(4).find("record 4 at offset") != std::string::npos);

  DataOptions hundred = in_directory(dir.path());
  hundred.data_type = "cifar100";
  CHECK(must(open_dataset(hundred, Log::silent())).classes == 100);
}

TEST_CASE("named record files are used, several are numbered through, and validation data may be missing", "[data]") {
  const test::TempDir dir;
  std::filesystem::create_directories(dir.path("parts"));
  test::write_record_file(dir.path("parts/b.rec"), 2, 8, 8, 1, 10);
  test::write_record_file(dir.path("parts/a.rec"), 3, 8, 8, 1, 10);
  DataOptions options = in_directory(dir.path());
  options.data_train = "parts";
  options.image_shape = {1, 8, 8};
  const DataSets sets = must(open_dataset(options, Log::silent()));
  CHECK(sets.train->size() == 5);
  CHECK(sets.validation == nullptr);
  CHECK(sets.classes == 0);
  CHECK(test::load(*sets.train, 2).label == 2.0f);  // the third of a.rec
  CHECK(test::load(*sets.train, 3).label == 0.0f);  // the first of b.rec
  CHECK(sets.train->describe(3).find("b.rec: record 0") != std::string::npos);
  options.data_val = "parts/b.rec;parts/a.rec";
  CHECK(test::load(*must(open_dataset(options, Log::silent())).validation, 2).label == 0.0f);
  options.data_train = "parts/absent.rec";
  const Error error = open_dataset(options, Log::silent()).error();
  CHECK(error.code == Code::kNotFound);
  CHECK_THAT(error.text(), Catch::Contains("absent.rec: no such file"));
}

TEST_CASE("random crops and mirrors are for training only", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), 2, 32, 32, 3, 10);
  std::filesystem::copy(dir.path("train.rec"), dir.path("test.rec"));
  DataOptions options = in_directory(dir.path());
  options.training.random_crop = options.training.random_mirror = true;
  options.training.pad = 2;
  const DataSets sets = must(open_dataset(options, Log::silent()));
  CHECK(test::load(*sets.train, 0, 1).data != test::load(*sets.train, 0, 2).data);
  CHECK(test::load(*sets.validation, 0, 1).data == test::load(*sets.validation, 0, 2).data);
}

// 30 x 40 images: a training crop of the whole size, a validation crop after val_resize.
TEST_CASE("each set is resized by its own flag, the mean image as the training set", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), 3, 30, 40, 3, 10);
  std::filesystem::copy(dir.path("train.rec"), dir.path("test.rec"));
  DataOptions options = in_directory(dir.path());
  options.rgb_mean = {0, 0, 0};
  options.image_shape = {3, 10, 10};
  const auto central = [](int resize) {
    const AugmentOptions cut{
        .image = {3, 10, 10}, .distortion = {.resize = resize}, .mean = {0, 0, 0}, .std = {1, 1, 1}};
    Augmenter::Scratch scratch;
    RandomStream unused(1, Use::kTest);
    std::vector<float> out(300);
    const Image image = test::gradient_image(30, 40, 3, 1);
    WholeImage whole(image);
    must(Augmenter(cut).apply(whole, unused, scratch, out));
    return out;
  };
  options.val_resize = 12;
  const DataSets validation_only = must(open_dataset(options, Log::silent()));
  CHECK(test::load(*validation_only.train, 1).data == central(0));
  CHECK(test::load(*validation_only.validation, 1).data == central(12));
  options.training.resize = 20;
  options.training.interpolation = Interpolation::kRandom;  // does not affect validation and the mean image
  options.mean_img = "mean.bin";
  const DataSets sets = must(open_dataset(options, Log::silent()));
  const auto first = test::load(*sets.validation, 1, 1).data;
  CHECK(first == test::load(*sets.validation, 1, 2).data);
  CHECK(first[0] - (central(12)[0]) ==
        Approx(test::load(*sets.validation, 0).data[0] - test::load(*validation_only.validation, 0).data[0]));
}

TEST_CASE("the colors of gray images cannot be distorted", "[data]") {
  const test::TempDir dir;
  test::write_mnist(dir);
  DataOptions options = in_directory(dir.path());
  options.training.color.s_max = 50;
  const Error error = open_dataset(options, Log::silent()).error();
  CHECK(error.code == Code::kUsage);
  CHECK_THAT(error.text(), Catch::Contains("--aug-level 2 and 3"));
  CHECK_THAT(error.text(), Catch::Contains("these have 1"));
}

TEST_CASE("rotated images are not resampled from nearest neighbors", "[data]") {
  const test::TempDir dir;
  test::write_mnist(dir);
  DataOptions options = in_directory(dir.path());
  options.training.interpolation = Interpolation::kNearest;
  CHECK(open_dataset(options, Log::silent()));
  options.training.rotate_max = 3;
  CHECK_THAT(open_dataset(options, Log::silent()).error().text(), Catch::Contains("--inter-method 0"));
}

TEST_CASE("random changes to the numbers of each image cannot be made on a device", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), 2, 32, 32, 3, 10);
  std::filesystem::copy(dir.path("train.rec"), dir.path("test.rec"));
  DataOptions options = in_directory(dir.path());
  options.training.random_contrast = 0.1;
  const DataSets sets = must(open_dataset(options, Log::silent()));
  CHECK(sets.train->normalisation() == nullptr);
  CHECK(sets.validation->normalisation() != nullptr);
}

TEST_CASE("a data set whose images have fewer labels than asked for is refused", "[data]") {
  const test::TempDir dir;
  test::write_text(dir.path("train-images-idx3-ubyte"), test::idx_images(12));
  test::write_text(dir.path("train-labels-idx1-ubyte"), test::idx_labels(12));
  DataOptions options;
  options.data_train = dir.path("train-images-idx3-ubyte");
  options.image_shape = {1, 2, 3};
  options.label_width = 2;
  CHECK_THAT(open_dataset(options, Log::silent()).error().text(), Catch::Contains("--label-width 2: the images of"));
}

TEST_CASE("the real MNIST opens", "[data]") {
  const char* root = std::getenv("DTRAIN_TEST_DATA");
  if (root == nullptr) {
    std::cout << "skipped: DTRAIN_TEST_DATA does not name the directory of the real data\n";
    return;
  }
  DataOptions options;
  options.data_dir = std::string(root) + "/mnist";
  const DataSets sets = must(open_dataset(options, Log::silent()));
  CHECK(sets.train->size() == 60000);
  CHECK(sets.validation->size() == 10000);
  // The first training image is a 5; its sum of pixels is known.
  const test::LoadedImage first = test::load(*sets.train, 0);
  CHECK(first.label == 5.0f);
  double sum = 0;
  for (const float x : first.data) sum += x * 255;
  CHECK(sum == Approx(27525));
  CHECK(test::load(*sets.validation, 0).label == 7.0f);
}
