#include "data/sources/record_source.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "data/loading/open.h"
#include "load_image.h"
#include "make_data_sets.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using dtrain::test::must;

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
  CHECK_THAT(refusal(test::idx_images(3)), Catch::Contains("this is an idx file of images"));
  CHECK_THAT(refusal(""), Catch::Contains("this is an empty file"));
  CHECK(!std::filesystem::exists(dir.path("a.idx")));
  std::filesystem::create_directories(dir.path("cats"));
  CHECK_THAT(list_record_files(dir.path("cats")).error().message,
             Catch::Contains("cats: the directory contains no .rec file (for a directory with MNIST's or CIFAR's "
                             "files, use --data-dir); pack images first: 'dtrain im2rec"));
}

TEST_CASE("a name that the system cannot resolve is an error that names it", "[data]") {
  namespace fs = std::filesystem;
  const test::TempDir dir;
  const auto refusal = [&](const std::string& path) {
    const auto paths = must(list_record_files(path));
    return open_records({.paths = paths, .index = "", .channels = 3}, Log::silent()).error().message;
  };
  fs::create_directories(dir.path("set"));
  fs::create_symlink("loop.rec", dir.path("set/loop.rec"));
  CHECK_THAT(refusal(dir.path("set/loop.rec")), Catch::Contains("loop.rec: Too many levels of symbolic links"));
  CHECK_THAT(refusal(dir.path("set")), Catch::Contains("loop.rec: Too many levels of symbolic links"));
  CHECK_THAT(refusal(dir.path(std::string(300, 'x') + ".rec")), Catch::Contains("File name too long"));
  // The records behind a link that leads nowhere would be missing.
  fs::remove(dir.path("set/loop.rec"));
  fs::create_symlink("gone", dir.path("set/b.rec"));
  test::write_record_file(dir.path("set/a.rec"), 3, 8, 8, 3, 2);
  CHECK_THAT(refusal(dir.path("set")), Catch::Contains("b.rec: no such file"));
  fs::remove(dir.path("set/b.rec"));
  fs::create_directories(dir.path("set/directory.rec"));
  CHECK(must(list_record_files(dir.path("set"))).size() == 1);
}

TEST_CASE("a name with a ';' that is itself a file's is one name", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("a;b.rec"), 3, 8, 8, 3, 2);
  using Names = std::vector<std::string>;
  CHECK(must(list_record_files(dir.path("a;b.rec"))) == Names{dir.path("a;b.rec")});
  CHECK(split_paths("a;b.rec", dir.path()) == Names{"a;b.rec"});
  CHECK(split_paths("a;b.rec") == Names{"a", "b.rec"});
}

TEST_CASE("an empty record file is an error", "[data]") {
  const test::TempDir dir;
  test::write_bytes(dir.path("a.rec"), {});
  CHECK(open_records({.paths = {dir.path("a.rec")}, .index = "", .channels = 3}, Log::silent()).error().code ==
        Code::kData);
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
  CHECK_THAT(error.text(), Catch::Contains(fmt::format(
                               "a.rec: record 1 at offset {}: the data (655 bytes) are not an image", offsets[1])));
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

  // A batch has the labels in the order of the record.
  LoaderOptions loading{.share = {0, 2}, .batch_size = 2, .shuffle = false};
  loading.labels = {{.name = "digit", .classes = 10}, {.name = "parity", .classes = 2}};
  Loader loader(sets.train, loading, Log::silent());
  loader.start(0);
  CHECK(std::ranges::equal(must(loader.next())->labels, std::vector<float>{4, 1, 7, 0}));
  loading.labels[0].classes = 7;
  Loader strict(sets.train, loading, Log::silent());
  strict.start(0);
  CHECK_THAT(strict.next().error().text(), Catch::Contains("label 7 for 'digit' is not in the range 0 to 6"));

  options.label_width = 1;
  const DataSets one = must(open_dataset(options, Log::silent()));
  CHECK_THAT(one.train->load(0, random, pixels, labels).error().text(),
             Catch::Contains("the record has 2 labels, but --label-width is 1"));
  options.label_width = 3;
  const DataSets three = must(open_dataset(options, Log::silent()));
  labels.resize(3);
  CHECK_THAT(three.train->load(0, random, pixels, labels).error().text(),
             Catch::Contains("has 2 labels, but --label-width is 3"));
}
