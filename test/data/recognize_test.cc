#include "data/sources/recognize.h"

#include <fmt/ranges.h>
#include <filesystem>

#include "data/loading/open.h"
#include "data/records/pickle.h"
#include "data/sources/cifar_source.h"
#include "data/sources/directory_source.h"
#include "data/sources/survey.h"
#include "make_data_sets.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

namespace fs = std::filesystem;

// "NAME CLASSES SHAPE" of what the directory holds, or the error.
std::string found(const DataFiles& files) {
  const Result<Recognized> recognized = recognize(files);
  if (!recognized) return recognized.error().message;
  const DataType& type = recognized->type;
  return fmt::format("{} {} {}", type.name, type.classes, fmt::join(type.image, ","));
}

struct SetShape {
  int count, edge, classes;
};
std::string found_records(const SetShape& set, const std::string& validation = "test.rec") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), set.count, set.edge, set.edge, 3, set.classes);
  if (!validation.empty()) test::write_record_file(dir.path(validation), 1, set.edge, set.edge, 3, 1);
  return found(test::directory_of(dir.path()));
}

std::vector<float> pixels(const Dataset& set, int64_t index) {
  RandomStream random(1, Use::kTest);
  std::vector<float> out(static_cast<size_t>(element_count(set.image())));
  std::vector<float> labels(set.label_width());
  must(set.load(index, random, out, labels));
  return out;
}

}  // namespace

TEST_CASE("idx files are mnist if they have its counts and size, else a data set of their own", "[data]") {
  const test::TempDir dir;
  test::write_idx(dir.path(), "train", 60000, 28, 10);
  test::write_idx(dir.path(), "t10k", 10000, 28, 10);
  CHECK(found(test::directory_of(dir.path())) == "mnist 10 1,28,28");
  test::write_idx(dir.path(), "t10k", 9999, 28, 10);
  CHECK(found(test::directory_of(dir.path())) == "idx 10 1,28,28");
  test::write_idx(dir.path(), "train", 94, 32, 47);
  CHECK(found(test::directory_of(dir.path())) == "idx 47 1,32,32");
  DataFiles named;
  named.data_train = dir.path("train-images-idx3-ubyte");
  CHECK(found(named) == "idx 47 1,32,32");
  fs::remove(dir.path("train-labels-idx1-ubyte"));
  CHECK_THAT(found(test::directory_of(dir.path())), Catch::Contains("train-labels-idx1-ubyte[.gz] is missing"));
}

TEST_CASE("record files are recognized by their labels and images", "[data]") {
  CHECK(found_records({20, 32, 10}) == "cifar10 10 3,28,28");
  CHECK(found_records({100, 32, 100}) == "cifar100 100 3,28,28");
  CHECK(found_records({100, 32, 100}, "val.rec") == "cifar100 100 3,28,28");
  CHECK(found_records({20, 32, 10}, "val.rec") == "cifar10 10 3,28,28");
  CHECK(found_records({5, 32, 5}) == "records 5 3,32,32");
  CHECK(found_records({20, 48, 10}) == "records 10 3,48,48");
  CHECK(found_records({7, 32, 10}) == "records 7 3,32,32");
  CHECK(found_records({6, 129, 3}) == "records 3 ");
  CHECK(found_records({1000, 4, 1000}, "val.rec") == "records 1000 3,4,4");
  CHECK(found_records({1000, 130, 1000}, "val.rec") == "imagenet 1000 3,224,224");
  CHECK_THAT(found_records({4, 4, 2}, ""), Catch::Contains("val.rec or test.rec is missing"));
}

TEST_CASE("labels with a gap do not tell the number of classes", "[data]") {
  const test::TempDir dir;
  std::vector<uint8_t> file;
  const auto image = must(encode_image(test::gradient_image(8, 8, 3, 1), ".png", 3));
  for (const float label : {0.0f, 1.0f, 3.0f}) must(append_record(file, test::image_payload(1, label, image)));
  test::write_bytes(dir.path("a.rec"), file);
  const Survey gap = must(survey_records({dir.path("a.rec")}));
  CHECK(!gap.classes());
  CHECK(gap.text() == "3 labels from 0 to 3 and images of 8 x 8");
  must(append_record(file, test::image_payload(1, 2.0f, image)));
  test::write_bytes(dir.path("b.rec"), file);
  CHECK(must(survey_records({dir.path("b.rec")})).classes() == 4);
  must(append_record(file, test::image_payload(1, 0.5f, image)));
  test::write_bytes(dir.path("b.rec"), file);
  CHECK(!must(survey_records({dir.path("b.rec")})).classes());
}

TEST_CASE("a survey continues after broken records, and reports images of several sizes", "[data]") {
  const test::TempDir dir;
  std::vector<uint8_t> file;
  for (int i = 0; i < 3; i++) {
    const auto image = must(encode_image(test::gradient_image(8 + i, 9, 3, i), ".png", 3));
    must(append_record(file, test::image_payload(1, static_cast<float>(i), image)));
    if (i == 1) file.insert(file.end(), 1000, 'x');
  }
  test::write_bytes(dir.path("a.rec"), file);
  const Survey survey = must(survey_records({dir.path("a.rec")}));
  CHECK(survey.classes() == 3);
  CHECK(!survey.image);
  CHECK(survey.sizes == "from 9 x 8 to 9 x 10");
  CHECK(survey.text() == "3 labels from 0 to 2 and images from 9 x 8 to 9 x 10");
}

TEST_CASE("a gray image among colored ones of its size makes no difference, and messages tell of it", "[data]") {
  const auto surveyed = [](const std::vector<int>& channels, int step) {
    const test::TempDir dir;
    std::vector<uint8_t> file;
    for (size_t i = 0; i < channels.size(); i++) {
      const int edge = 8 + step * static_cast<int>(i);
      const auto image = must(encode_image(test::gradient_image(edge, edge, channels[i], 1), ".png", 3));
      must(append_record(file, test::image_payload(1, static_cast<float>(i), image)));
    }
    test::write_bytes(dir.path("a.rec"), file);
    return must(survey_records({dir.path("a.rec")}));
  };
  const Survey mixed = surveyed({3, 1, 3}, 0);
  CHECK(mixed.image == Shape{3, 8, 8});
  CHECK(mixed.text() == "3 labels from 0 to 2 and gray and colored images of 8 x 8");
  CHECK(surveyed({1, 1, 1}, 0).image == Shape{1, 8, 8});
  const Survey gray = surveyed({1, 1}, 4);
  CHECK_FALSE(gray.image);
  CHECK(gray.channels() == 1);
  CHECK(gray.text() == "2 labels from 0 to 1 and gray images from 8 x 8 to 12 x 12");
}

TEST_CASE("CIFAR's binary files are recognized in the directory and in the directory of their archive", "[data]") {
  const test::TempDir dir;
  test::write_cifar10(dir.path("a"));
  test::write_cifar10(dir.path("b/cifar-10-batches-bin"));
  CHECK(found(test::directory_of(dir.path("a"))) == "cifar10 10 3,28,28");
  CHECK(found(test::directory_of(dir.path("b"))) == "cifar10 10 3,28,28");
  fs::create_directories(dir.path("c"));
  test::write_text(dir.path("c/train.bin"), test::cifar_text(200, 100, true));
  CHECK_THAT(found(test::directory_of(dir.path("c"))),
             Catch::Contains("test.bin is missing for the data set cifar100") &&
                 Catch::Contains("'dtrain data get mnist'") && Catch::Contains("build/quickstart-data"));
  test::write_text(dir.path("c/test.bin"), test::cifar_text(9, 9, true));
  CHECK(found(test::directory_of(dir.path("c"))) == "cifar100 100 3,28,28");
  DataFiles named;
  named.data_dir = dir.path("a");
  named.data_train = "data_batch_1.bin;data_batch_2.bin";
  CHECK(found(named) == "cifar10 10 3,28,28");
}

TEST_CASE("CIFAR's batches for Python have the images of the binary files", "[data]") {
  const test::TempDir dir;
  test::write_cifar10(dir.path("bin"));
  for (const char* directory : {"py/cifar-10-batches-py", "hundred"}) fs::create_directories(dir.path(directory));
  for (int i = 1; i <= 5; i++) {
    test::write_text(dir.path(fmt::format("py/cifar-10-batches-py/data_batch_{}", i)),
                     test::cifar_batch(3 * i, {"labels"}, i % 2 == 0));
  }
  test::write_text(dir.path("py/cifar-10-batches-py/test_batch"), test::cifar_batch(4, {"labels"}));
  CHECK(found(test::directory_of(dir.path("py"))) == "cifar10 10 3,28,28");
  DataOptions options;
  options.data_dir = dir.path("bin");
  const DataSets binary = must(open_dataset(options, Log::silent()));
  options.data_dir = dir.path("py/cifar-10-batches-py");
  const DataSets python = must(open_dataset(options, Log::silent()));
  REQUIRE(python.train->size() == 45);
  for (const int64_t i : {0, 2, 3, 44}) {
    CHECK(pixels(*python.train, i) == pixels(*binary.train, i));
  }
  CHECK(pixels(*python.validation, 3) == pixels(*binary.validation, 3));

  test::write_text(dir.path("hundred/train"), test::cifar_batch(200, {"coarse_labels", "fine_labels"}));
  test::write_text(dir.path("hundred/test"), test::cifar_batch(9, {"coarse_labels", "fine_labels"}, true));
  CHECK(found(test::directory_of(dir.path("hundred"))) == "cifar100 100 3,28,28");
  const Error wrong = open_cifar(Cifar::k10, {dir.path("hundred/train")}).error();
  CHECK_THAT(wrong.message, Catch::Contains("hundred/train: the file has no entry 'labels'"));
}

TEST_CASE("a pickle that is cut, changed or no batch is refused", "[data]") {
  const test::TempDir dir;
  const std::string batch = test::cifar_batch(2, {"labels"});
  for (size_t size = 0; size < batch.size(); size += size < 400 ? 1 : 97) {
    CHECK_FALSE(Pickle::parse(batch.substr(0, size)));
  }
  for (size_t i = 0; i < 400; i++) {
    for (const int bit : {0, 3, 7}) {
      std::string changed = batch;
      changed[i] = static_cast<char>(changed[i] ^ 1 << bit);
      test::write_text(dir.path("batch"), changed);
      (void)open_cifar(Cifar::k10, {dir.path("batch")});  // any Result, never a crash
    }
  }
  CHECK_THAT(Pickle::parse("\x80\x02(").error().message, Catch::Contains("ends early"));
  CHECK_THAT(Pickle::parse("\x80\x02t.").error().message, Catch::Contains("damaged"));
  CHECK_THAT(Pickle::parse("\x80\x02i.").error().message, Catch::Contains("dtrain does not support"));
  CHECK_THAT(Pickle::parse("\x80\x02" + std::string(size_t{5} << 20, 'N')).error().message,
             Catch::Contains("instructions"));
}

TEST_CASE("a directory with two data sets is refused", "[data]") {
  const test::TempDir dir;
  test::write_idx(dir.path(), "train", 10, 8, 10);
  test::write_cifar10(dir.path());
  CHECK_THAT(found(test::directory_of(dir.path())), Catch::Contains("(idx, cifar10): choose one with --data-type"));
  DataFiles chosen = test::directory_of(dir.path());
  chosen.data_type = "cifar10";
  CHECK(found(chosen) == "cifar10 10 3,28,28");
}

TEST_CASE("an image of CIFAR-100 has a coarse and a fine label", "[data]") {
  const test::TempDir dir;
  test::write_text(dir.path("train.bin"), test::cifar_text(200, 100, true));
  const auto fine = must(open_cifar(Cifar::k100, {dir.path("train.bin")}));
  const auto both = must(open_cifar(Cifar::k100, {dir.path("train.bin")}, 2));
  ReadScratch scratch;
  for (const int64_t i : {37, 59, 137}) {
    std::vector<float> labels(2);
    must(both->read(i, scratch, labels));
    CHECK(labels[1] == must(test::read_label(*fine, i, scratch)));
    CHECK(labels[0] != labels[1]);
    CHECK(labels[0] < 20);
  }
}

TEST_CASE("files of CIFAR with a wrong size or label are refused", "[data]") {
  const test::TempDir dir;
  const auto opened = [&](Cifar kind, const std::string& text) {
    test::write_text(dir.path("a.bin"), text);
    const auto source = open_cifar(kind, {dir.path("a.bin")});
    return source ? fmt::format("{} images", (*source)->size()) : source.error().message;
  };
  const std::string ten = test::cifar_text(12, 10);
  CHECK(opened(Cifar::k10, ten) == "12 images");
  CHECK_THAT(opened(Cifar::k10, ten.substr(1)), Catch::Contains("36875 bytes is not a multiple of the 3073 bytes"));
  CHECK_THAT(opened(Cifar::k10, ten + "x"), Catch::Contains("the file is cut short or has another format"));
  CHECK_THAT(opened(Cifar::k10, ""), Catch::Contains("0 bytes"));
  CHECK_THAT(opened(Cifar::k10, test::cifar_text(12, 11)),
             Catch::Contains("image 10 has the label 10; the file is not one of CIFAR-10"));
  CHECK(opened(Cifar::k100, test::cifar_text(120, 100, true)) == "120 images");
  CHECK_THAT(opened(Cifar::k100, test::cifar_text(3074, 10)), Catch::Contains("the file is not one of CIFAR-100"));
}

TEST_CASE("CIFAR's binary files give the same images as record files", "[data]") {
  const test::TempDir dir;
  fs::create_directories(dir.path("bin"));
  std::vector<uint8_t> records;
  std::string binary;
  for (int i = 0; i < 12; i++) {
    const Image image = test::gradient_image(32, 32, 3, i);
    const auto encoded = must(encode_image(image, ".png", 3));
    must(append_record(records, test::image_payload(static_cast<uint64_t>(i), static_cast<float>(i % 10), encoded)));
    binary += static_cast<char>(i % 10);
    for (const int channel : {2, 1, 0}) {
      for (int k = 0; k < 1024; k++) binary += static_cast<char>(image.at(k / 32, k % 32)[channel]);
    }
  }
  test::write_bytes(dir.path("train.rec"), records);
  test::write_bytes(dir.path("test.rec"), records);
  for (int i = 1; i <= 5; i++) test::write_text(fmt::format("{}/data_batch_{}.bin", dir.path("bin"), i), binary);
  test::write_text(dir.path("bin/test_batch.bin"), binary);
  DataOptions options;
  options.data_dir = dir.path();
  const DataSets by_records = must(open_dataset(options, Log::silent()));
  options.data_dir = dir.path("bin");
  const DataSets by_binary = must(open_dataset(options, Log::silent()));
  CHECK(by_binary.train->size() == 60);
  for (int64_t i = 0; i < 12; i++) {
    CHECK(pixels(*by_binary.validation, i) == pixels(*by_records.validation, i));
    CHECK(pixels(*by_binary.train, 24 + i) == pixels(*by_records.train, i));
  }
  CHECK_THAT(by_binary.train->describe(25), Catch::Contains("data_batch_3.bin: image 1"));
}

TEST_CASE("class directories are a data set, with and without validation", "[data]") {
  const test::TempDir dir;
  for (const char* set : {"split/train/", "split/val/", "plain/"}) {
    test::write_images(dir.path(std::string(set) + "cat"), 2);
    test::write_images(dir.path(std::string(set) + "Dog/old"), 3);
  }
  fs::create_directories(dir.path("plain/.hidden"));
  CHECK(found(test::directory_of(dir.path("split"))) == "folder 2 3,6,6");
  CHECK(found(test::directory_of(dir.path("plain"))) == "folder 2 3,6,6");

  DataOptions options;
  options.data_dir = dir.path("split");
  const DataSets split = must(open_dataset(options, Log::silent()));
  CHECK(split.class_names == std::vector<std::string>{"Dog", "cat"});  // by bytes
  CHECK(split.train->size() == 5);
  CHECK(split.validation->size() == 5);
  CHECK_THAT(split.train->describe(1), Catch::EndsWith("split/train/Dog/old/1.png"));
  RandomStream random(1, Use::kTest);
  std::vector<float> out(3 * 6 * 6);
  float label = 0;
  must(split.train->load(3, random, out, {&label, 1}));
  CHECK(label == 1.0f);
  CHECK(out[0] == Approx(test::gradient_image(6, 6, 3, 0).at(0, 0)[2] - 123.68));

  options.data_dir = dir.path("plain");
  CHECK(must(open_dataset(options, Log::silent())).validation == nullptr);
  options.data_val = dir.path("split/val");
  CHECK(must(open_dataset(options, Log::silent())).validation->size() == 5);

  DataFiles named;
  named.data_train = dir.path("split/train");
  CHECK(found(named) == "folder 2 3,6,6");
}

TEST_CASE("class directories that do not fit are refused with their names", "[data]") {
  const test::TempDir dir;
  test::write_images(dir.path("train/cat"), 1);
  test::write_images(dir.path("train/dog"), 1, 6, 7);
  test::write_images(dir.path("test/cat"), 1);
  DataOptions options;
  options.data_dir = dir.path();
  CHECK(found(options) == "folder 2 ");  // two sizes
  options.image_shape = {3, 4, 4};
  const auto refusal = [&] { return open_dataset(options, Log::silent()).error().message; };
  CHECK(must(open_dataset(options, Log::silent())).validation->size() == 1);  // a class may have none to validate with
  test::write_images(dir.path("test/emu"), 1);
  CHECK_THAT(refusal(), Catch::Contains("no directory for the class 'emu'"));
  fs::remove_all(dir.path("test/emu"));
  CHECK(must(open_dataset(options, Log::silent())).train->size() == 2);
  fs::create_directories(dir.path("train/cow"));  // without an image it is no class
  CHECK(must(open_dataset(options, Log::silent())).class_names == std::vector<std::string>{"cat", "dog"});
}

TEST_CASE("a single directory of images is refused as one class", "[data]") {
  const test::TempDir dir;
  test::write_images(dir.path("train/cat"), 2);
  CHECK_THAT(found(test::directory_of(dir.path())),
             Catch::Contains("train: there is only one directory of images, 'cat'"));
}

TEST_CASE("directories without images are not a data set", "[data]") {
  const test::TempDir dir;
  fs::create_directories(dir.path("a/b"));
  CHECK_THAT(found(test::directory_of(dir.path())), Catch::Contains("nor a subdirectory of images for each class"));
  fs::create_directories(dir.path("c"));
  CHECK_THAT(found(test::directory_of(dir.path())), Catch::Contains("nor a subdirectory of images for each class"));
  CHECK(!recognize(test::directory_of("/nowhere/at/all")));
}

TEST_CASE("an image of a directory that is gone or broken is a bad record", "[data]") {
  const test::TempDir dir;
  test::write_images(dir.path("cat"), 2);
  const auto source = must(open_directory(dir.path(), {"cat"}, 3)).images;
  test::write_text(dir.path("cat/0.png"), "no image");
  fs::remove(dir.path("cat/1.png"));
  ReadScratch scratch;
  for (int64_t i = 0; i < 2; i++) {
    const Error error = test::read_label(*source, i, scratch).error();
    CHECK(error.code == Code::kData);
    CHECK_THAT(error.message, Catch::Contains(fmt::format("cat/{}.png", i)));
  }
}
