// Directories of images: which are classes, which are parts of a data set, and which files in them count.
#include <fmt/ranges.h>

#include <filesystem>

#include "data/loading/open.h"
#include "data/sources/directory_layout.h"
#include "data/sources/image_directory.h"
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

// A directory with an image in each of these directories.
class Layout {
 public:
  explicit Layout(const std::vector<std::string>& directories) {
    for (const std::string& directory : directories) test::write_images(dir_.path("set/" + directory), 1);
  }

  // "training=... validation=... left out=...", with paths in the directory; or the error's first words.
  [[nodiscard]] std::string found() const {
    const Result<DirectoryLayout> layout = directory_layout(root());
    if (!layout) return layout.error().code == Code::kUsage ? "refused: " + layout.error().message : "error";
    return fmt::format("{}|{}|{}", inside(layout->training), inside(layout->validation),
                       fmt::join(layout->left_out, ","));
  }
  [[nodiscard]] size_t warnings() const { return must(directory_layout(root())).warnings.size(); }
  [[nodiscard]] std::string root() const { return dir_.path("set"); }

 private:
  [[nodiscard]] std::string inside(const std::string& path) const {
    return path.empty() ? "-" : fs::path(path).lexically_relative(root()).string();
  }
  test::TempDir dir_;
};

// The directories PART/CLASS for each part and both classes.
std::vector<std::string> parts(const std::vector<std::string>& names) {
  std::vector<std::string> directories;
  for (const std::string& name : names) {
    for (const char* of : {"cat", "dog"}) directories.push_back(name + "/" + of);
  }
  return directories;
}

std::string layout_of(const std::vector<std::string>& directories) {
  return Layout(directories).found();
}

}  // namespace

TEST_CASE("directories with the same directories in them are parts of a data set, told apart by their names",
          "[data]") {
  CHECK(layout_of(parts({"training", "validation"})) == "training|validation|");
  CHECK(layout_of(parts({"Train", "Test"})) == "Train|Test|");
  CHECK(layout_of(parts({"train2017", "val2017"})) == "train2017|val2017|");
  CHECK(layout_of(parts({"train_images", "val_images"})) == "train_images|val_images|");
  CHECK(layout_of(parts({"TrainImages", "ValidImages"})) == "TrainImages|ValidImages|");
  CHECK(layout_of(parts({"training_set", "test_set"})) == "training_set|test_set|");
  CHECK(layout_of(parts({"seg_train/seg_train", "seg_test/seg_test"})) == "seg_train/seg_train|seg_test/seg_test|");
  CHECK(layout_of(parts({"train", "test", "valid", "val", "dev", "eval"})) == "train|val|dev,eval,test,valid");
  CHECK(layout_of(parts({"train", "test", "eval"})) == "train|eval|test");
  CHECK(layout_of(parts({"train", "test", "dev"})) == "train|dev|test");
  CHECK(layout_of(parts({"train", "extra"})) == "train|-|extra");
  CHECK(layout_of(parts({"data/train", "data/val"})) == "data/train|data/val|");
}

TEST_CASE("a class directory without an image in a part is left out by name", "[data]") {
  const Layout layout(parts({"train", "val"}));
  fs::create_directories(layout.root() + "/train/bird");
  fs::create_directories(layout.root() + "/val/bird");
  CHECK(layout.found() == "train|val|train/bird,val/bird");
}

TEST_CASE("parts whose names do not tell are refused with the flags that name them", "[data]") {
  for (const auto& names :
       {std::vector<std::string>{"amazon", "webcam"}, {"a", "b", "c"}, {"trainA", "trainB", "testA"}}) {
    const std::string found = layout_of(parts(names));
    INFO(found);
    CHECK(found.starts_with("refused: "));
    CHECK_THAT(found, Catch::Contains("--data-train") && Catch::Contains("--data-val") && Catch::Contains(names[0]));
  }
}

TEST_CASE("names alone make parts of directories that do not contradict them", "[data]") {
  CHECK(layout_of({"train/cat", "train/dog", "test"}) == "train|-|test");   // images without classes
  CHECK(layout_of({"train/cat", "train/dog", "val/cat"}) == "train|val|");  // a class is missing
  CHECK(layout_of({"train/a/images", "train/b/images", "val/images", "test/images"}) ==
        "train|-|test,val");  // Tiny ImageNet
  CHECK(layout_of({"train/cat", "train/dog", "bird"}) == ".|-|");
}

TEST_CASE("two classes that are called train and val stay classes, with one warning", "[data]") {
  const Layout flat({"train", "val"});
  CHECK(flat.found() == ".|-|");
  CHECK(flat.warnings() == 1);
  const Layout different({"train/steam", "train/diesel", "val/x", "val/y"});
  CHECK(different.found() == ".|-|");
  CHECK(different.warnings() == 1);
  CHECK(Layout({"cat", "dog", "untrained"}).warnings() == 0);
}

TEST_CASE("directories of classes are looked for in a single directory, and directories without an image are left out",
          "[data]") {
  CHECK(layout_of({"images/cat", "images/dog"}) == "images|-|");
  CHECK(layout_of({"a/b/cat", "a/b/dog"}) == "a/b|-|");
  CHECK(layout_of({"cat", "dog"}) == ".|-|");
  CHECK(layout_of({"cat/images", "dog/images"}) == ".|-|");  // a habit, no parts
  CHECK(layout_of({"train/cat/x", "train/cat/y", "train/dog/x", "train/dog/y"}) == "train|-|");
  const Layout pets({"images/cat", "images/dog"});
  fs::create_directories(pets.root() + "/annotations/xmls");
  test::write_text(pets.root() + "/annotations/list.txt", "a text");
  CHECK(pets.found() == "images|-|annotations");
  CHECK(layout_of({"images/cat", "images/dog", "masks/cat", "masks/dog"}) == "images|-|masks");
  CHECK(layout_of({"images", "annotations/trimaps"}) ==
        ".|-|annotations");  // no classes: refused when they are counted
  CHECK(layout_of({"masks", "hats"}) == ".|-|");
  const test::TempDir empty;
  CHECK(directory_layout(empty.path()).error().code == Code::kNotFound);
  fs::create_directories(empty.path("cat"));
  test::write_text(empty.path("cat/1.webp"), std::string("RIFF\0\0\0\0WEBPVP8 ", 16));
  const Error others = directory_layout(empty.path()).error();
  CHECK(others.code == Code::kData);
  CHECK_THAT(others.message, Catch::Contains("1 .webp") && Catch::Contains("mogrify"));
}

TEST_CASE("images are known by their contents, and other files are counted", "[data]") {
  const test::TempDir dir;
  test::write_images(dir.path("a/deep"), 2);
  const std::string jpeg("\xff\xd8\xff\xe0 and so on", 14);
  for (const char* name : {"one.jfif", "two.JPE", "three", "four.gif"})
    test::write_text(dir.path(std::string("a/") + name), jpeg);
  for (const char* name : {"1.webp", "2.WEBP", "3.tif", "unknown"})
    test::write_text(dir.path(std::string("a/") + name), std::string("\0\1\2", 3));
  for (const char* name : {".hidden.png", "Thumbs.db", "notes.txt", "labels.csv", "readme"})
    test::write_text(dir.path(std::string("a/") + name), "text");
  fs::create_symlink("/nowhere/x.jpg", dir.path("a/broken.jpg"));
  test::write_images(dir.path("a/.ipynb_checkpoints"), 1);
  const ListedImages found = must(list_images(dir.path("a")));
  CHECK(found.images ==
        std::vector<std::string>{"four.gif", "one.jfif", "three", "two.JPE", "deep/0.png", "deep/1.png"});
  CHECK(to_text(found.others) == "1 .tif, 2 .webp, 1 broken links, 1 without extension");
  test::write_images(dir.path("b"), 1);
  const ClassDirectories classes = must(class_directories(dir.path()));
  CHECK(classes.classes == std::vector<std::string>{"a", "b"});
  fs::create_directories(dir.path("line\nbreak"));
  test::write_images(dir.path("line\nbreak"), 1);
  CHECK_THAT(class_directories(dir.path()).error().message,
             Catch::Contains("line\\x0abreak") && Catch::Contains("line break"));
}

TEST_CASE("formats that look like texts count as left out, and images count under any name", "[data]") {
  const test::TempDir dir;
  test::write_images(dir.path("a"), 1);
  fs::copy_file(dir.path("a/0.png"), dir.path("a/really.txt"));
  test::write_text(dir.path("a/1.ppm"), "P6\n2 1\n255\n\xff\xfe\xc0\xff\xfe\xc0");
  test::write_text(dir.path("a/2.pgm"), "P2\n1 1\n255\n7\n");
  test::write_text(dir.path("a/3.svg"), "<svg/>\n");
  test::write_text(dir.path("a/4.jxl"), "\xff\xfe\xc0 no control characters");
  test::write_text(dir.path("a/Desktop.ini"), std::string("\xff\xfe[\0", 4));
  test::write_text(dir.path("a/ehthumbs.db"), std::string("\0\1", 2));
  const ListedImages found = must(list_images(dir.path("a")));
  CHECK(found.images == std::vector<std::string>{"0.png", "really.txt"});
  CHECK(to_text(found.others) == "1 .jxl, 1 .pgm, 1 .ppm, 1 .svg");
}

TEST_CASE("a link to a directory above is not entered", "[data]") {
  const test::TempDir dir;
  for (const char* name : {"cat", "dog"}) test::write_images(dir.path(std::string("set/") + name), 2);
  fs::create_directories(dir.path("set/none"));
  for (const char* link : {"set/cat/up", "set/none/up"}) fs::create_directory_symlink("..", dir.path(link));
  fs::create_directory_symlink(dir.path("set/dog"), dir.path("set/linked"));
  CHECK(must(list_images(dir.path("set/cat"))).images.size() == 2);
  CHECK(must(class_directories(dir.path("set"))).classes == std::vector<std::string>{"cat", "dog", "linked"});
}

TEST_CASE("every way to class directories without an image names what is there instead", "[data]") {
  const test::TempDir dir;
  for (const char* name : {"cat", "dog"}) {
    test::write_images(dir.path(std::string("good/") + name), 1);
    for (const char* set : {"webp", "named-jpg"}) fs::create_directories(dir.path(fmt::format("{}/{}", set, name)));
    test::write_text(dir.path(fmt::format("webp/{}/a.webp", name)), std::string("RIFF\0\0\0\0WEBPVP8 ", 16));
    test::write_text(dir.path(fmt::format("named-jpg/{}/a.jpg", name)), std::string("RIFF\0\0\0\0WEBPVP8 ", 16));
  }
  const auto message = [&](DataOptions options) {
    options.image_shape = {3, 8, 8};
    const Result<DataSets> sets = open_dataset(options, Log::silent());
    return sets ? "opened" : sets.error().message;
  };
  DataOptions directory, training, validation, misnamed;
  directory.data_dir = dir.path("webp");
  training.data_train = dir.path("webp");
  validation.data_train = dir.path("good");
  validation.data_val = dir.path("webp");
  misnamed.data_dir = dir.path("named-jpg");
  for (const DataOptions& options : {directory, training, validation}) {
    CHECK_THAT(message(options), Catch::Contains("no JPEG or PNG files (but 2 .webp)"));
  }
  CHECK_THAT(message(misnamed), Catch::Contains("cat/a.jpg: WebP images are not supported"));
}

TEST_CASE("class directories do not validate what was trained on records, whose labels have no names", "[data]") {
  const test::TempDir dir;
  for (const char* name : {"val/cat", "val/dog"}) test::write_images(dir.path(name), 1);
  test::write_record_file(dir.path("train.rec"), 4, 6, 6, 3, 2);
  DataOptions options;
  options.data_train = dir.path("train.rec");
  options.data_val = dir.path("val");
  options.image_shape = {3, 6, 6};
  const Result<DataSets> sets = open_dataset(options, Log::silent());
  REQUIRE_FALSE(sets);
  CHECK(sets.error().code == Code::kUsage);
  CHECK_THAT(sets.error().message, Catch::Contains("im2rec --recursive"));
}

TEST_CASE("what was found in class directories is said in one line", "[data]") {
  const test::TempDir dir;
  for (const char* name : {"cat", "cow", "dog", "emu", "fly", "gnu"})
    test::write_images(dir.path(std::string("train/") + name), 2, 20, 30);
  test::write_images(dir.path("val/cat"), 3, 20, 30);
  test::write_images(dir.path("val/gnu"), 1, 20, 30);
  test::write_images(dir.path("test/cow"), 1, 20, 30);
  fs::create_directories(dir.path("annotations"));
  test::write_text(dir.path("train/dog/x.webp"), std::string("\0\1", 2));
  DataOptions options;
  options.data_dir = dir.path();
  options.image_shape = {3, 8, 8};
  CHECK(must(open_dataset(options, Log::silent())).found ==
        "training: 12 images in 6 classes (cat 2, cow 2, dog 2, emu 2, fly 2, ...); validation: 4 (none of cow, dog, "
        "emu, "
        "fly); left out: annotations/, test/, 1 .webp");
  options.training.resize = options.val_resize = kFitCrop;
  CHECK_THAT(must(open_dataset(options, Log::silent())).found,
             Catch::EndsWith("; images are first scaled to fit 8 x 8"));
  test::write_images(dir.path("plain"), 1);
  for (const char* name : {"cat", "dog"}) test::write_images(dir.path(std::string("plain/") + name), 1);
  options.data_dir = dir.path("plain");
  CHECK_THAT(must(open_dataset(options, Log::silent())).found, Catch::Contains("; left out: 1 without a class;"));
}
