// im2rec and data index: from their options to the files that they write.
#include <filesystem>

#include "base/file.h"
#include "data/loading/open.h"
#include "data/records/record_index.h"
#include "dataset/im2rec.h"
#include "dataset/index.h"
#include "dataset/synth.h"
#include "images/image.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::dataset;
using dtrain::test::must;

namespace {

// Writes two classes of small JPEG files: cat/0.jpg, ..., dog/0.jpg, ...
void write_directory(const std::string& root, int per_class) {
  for (const char* name : {"cat", "dog"}) {
    std::filesystem::create_directories(root + "/" + name);
    for (int i = 0; i < per_class; i++) {
      RandomStream random(static_cast<uint64_t>(i), Use::kTest);
      const auto jpeg = must(images::encode_image(draw_synthetic(i % 2, 2, 32, random), ".jpg", 90));
      must(write_file_atomic(fmt::format("{}/{}/{}.jpg", root, name, i),
                             {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()}));
    }
  }
}

int64_t count_records(const std::string& path) {
  const auto file = must(data::RecordFile::open(path));
  const auto scan = must(data::scan_records(file));
  CHECK(must(data::read_index(data::index_path(path), file.size())) == scan.offsets);
  return static_cast<int64_t>(scan.offsets.size());
}

}  // namespace

TEST_CASE("im2rec packs directories straight into a data directory", "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("train"), 5);
  write_directory(dir.path("test"), 2);
  Im2recOptions options;
  options.recursive = true;
  options.pack.pass_through = true;
  std::filesystem::create_directories(dir.path("set"));
  must(im2rec_prefix(dir.path("set/train"), dir.path("train"), options, Log::silent()));
  must(im2rec_prefix(dir.path("set/test"), dir.path("test"), options, Log::silent()));
  CHECK(count_records(dir.path("set/train.rec")) == 10);
  data::DataOptions written;
  written.data_dir = dir.path("set");
  const data::DataSets sets = must(data::open_dataset(written, Log::silent()));
  CHECK(sets.train->size() == 10);
  CHECK(sets.validation->size() == 4);
  // The list has the order of im2rec.py: 4 0 5 9 ... in the order of the directory walk, in which 0 to 4 are cats.
  CHECK(must(read_file(dir.path("set/train.lst")))
            .starts_with("4\t0.000000\tcat/4.jpg\n0\t0.000000\tcat/0.jpg\n5\t1.000000\tdog/0.jpg\n"));
}

TEST_CASE("im2rec makes only lists on request, and packs existing lists", "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("images"), 2);
  Im2recOptions options;
  options.recursive = true;
  options.list = true;
  options.shuffle = false;
  must(im2rec_prefix(dir.path("set"), dir.path("images"), options, Log::silent()));
  CHECK(!std::filesystem::exists(dir.path("set.rec")));
  CHECK(must(read_file(dir.path("set.lst"))) ==
        "0\t0.000000\tcat/0.jpg\n1\t0.000000\tcat/1.jpg\n2\t1.000000\tdog/0.jpg\n3\t1.000000\tdog/1.jpg\n");
  must(write_file_atomic(dir.path("set_b.lst"), "7\t1\tdog/1.jpg\n"));
  options.list = false;
  must(im2rec_prefix(dir.path("set"), dir.path("images"), options, Log::silent()));
  CHECK(count_records(dir.path("set.rec")) == 4);
  CHECK(count_records(dir.path("set_b.rec")) == 1);
  CHECK(must(read_file(dir.path("set_b.idx"))) == "7\t0\n");
}

// A list can hold neither tabs nor ends of lines in a path, nor blanks at its ends: it would name another file.
TEST_CASE("images whose names a list cannot hold are left out of it and named", "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("images"), 1);
  for (const char* name : {"3\ttab.jpg", "new\nline.jpg", "return\r.jpg", " blank.jpg"}) {
    std::filesystem::copy_file(dir.path("images/cat/0.jpg"), dir.path("images/") + name);
  }
  Log log = Log::silent();
  must(log.add_file(dir.path("log")));
  Im2recOptions options;
  options.recursive = true;
  must(im2rec_prefix(dir.path("a"), dir.path("images"), options, log));
  const std::string text = must(read_file(dir.path("log")));
  for (const char* name : {"3\ttab.jpg", "new\\x0aline.jpg", "return\\x0d.jpg", " blank.jpg"}) {
    CHECK_THAT(text, Catch::Contains(fmt::format("images/{}': left out", name)));
  }
  CHECK_THAT(text, !Catch::Contains("skipped line"));
  CHECK(count_records(dir.path("a.rec")) == 2);
}

TEST_CASE("im2rec accepts the keys of MXNet's im2rec.cc", "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("images"), 1);
  must(write_file_atomic(dir.path("a.lst"), "0 1 cat/0.jpg\n"));
  Im2recOptions options;
  for (const char* key : {"resize=16", "quality=80", "color=0", "center_crop=1", "encoding=.png", "unchanged=0"}) {
    must(apply_im2rec_key(key, options));
  }
  CHECK(options.pack.resize == 16);
  CHECK(options.pack.encoding == ".png");
  must(im2rec_list(dir.path("a.lst"), dir.path("images/"), dir.path("out.rec"), options, Log::silent()));
  CHECK(count_records(dir.path("out.rec")) == 1);
  must(apply_im2rec_key("resize=-1", options));
  CHECK(options.pack.resize == 0);
  for (const char* key : {"resize", "resize=x", "unchanged=2", "nsplit=", "colour=1", "=", ""}) {
    INFO(key);
    CHECK(apply_im2rec_key(key, options).error().code == Code::kUsage);
  }
  for (const char* key : {"encoding=.gif", "quality=1000", "nsplit=0", "nsplit=1001", "part=1", "label_width=0",
                          "inter_method=7", "color=2", "num_thread=0"}) {
    INFO(key);
    options = Im2recOptions();
    must(apply_im2rec_key(key, options));
    CHECK(check(options).error().code == Code::kUsage);
  }
  options = Im2recOptions();
  for (const char* key : {"part=2", "nsplit=3", "inter_method=10", "label_width=2", "pack_label=1", "raw=1"})
    must(apply_im2rec_key(key, options));
  must(check(options));
  options.label_width = 1;
  CHECK(check(options).error().code == Code::kUsage);
}

TEST_CASE("im2rec divides the list into sets and packs them all", "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("images"), 5);
  Im2recOptions options;
  options.recursive = true;
  options.division = {.train_ratio = 0.7, .test_ratio = 0.05};  // no image is for testing
  std::vector<std::string> table;
  const Im2recHost host{.print = [&](const std::string& line) { table.push_back(line); }};
  must(im2rec_prefix(dir.path("new/set"), dir.path("images"), options, Log::silent(), host));
  CHECK(table == std::vector<std::string>{"cat 0", "dog 1"});
  CHECK(must(read_file(dir.path("new/set_test.lst"))).empty());
  CHECK(count_records(dir.path("new/set_train.rec")) == 7);
  CHECK(count_records(dir.path("new/set_val.rec")) == 3);
  CHECK(!std::filesystem::exists(dir.path("new/set_test.rec")));
  CHECK(must(read_file(dir.path("new/set_train.lst")))
            .starts_with("4\t0.000000\tcat/4.jpg\n0\t0.000000\tcat/0.jpg\n5\t1.000000\tdog/0.jpg\n"));
  for (const auto& file : std::filesystem::directory_iterator(dir.path("new")))
    CHECK(!file.path().string().ends_with(".partial"));
}

TEST_CASE("im2rec divides each class between training and validation, and ends with the numbers", "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("images"), 10);
  std::filesystem::create_directories(dir.path("images/emu"));
  std::filesystem::copy(dir.path("images/cat/0.jpg"), dir.path("images/emu/0.jpg"));
  Im2recOptions options;
  options.recursive = true;
  options.division = {.val_fraction = 0.2, .seed = 3};
  Log log = Log::silent();
  must(log.add_file(dir.path("log")));
  must(im2rec_prefix(dir.path("set"), dir.path("images"), options, log));
  CHECK(count_records(dir.path("set_train.rec")) == 17);
  CHECK(count_records(dir.path("set_val.rec")) == 4);
  const std::string lines = must(read_file(dir.path("log")));
  CHECK_THAT(lines, Catch::Contains("warning: emu: this class has only one image, which is used for training"));
  CHECK_THAT(lines, Catch::EndsWith(fmt::format("images: 17 in '{0}_train.rec', 4 in '{0}_val.rec'; train with "
                                                "--data-train {0}_train.rec --data-val {0}_val.rec\n",
                                                dir.path("set"))));
  options.division.val_fraction = 0;
  CHECK(check(options).error().code == Code::kUsage);  // a seed that chooses nothing
}

TEST_CASE("lists of a run that was ended while it wrote them are made again", "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("images"), 2);
  Im2recOptions options;
  options.recursive = true;
  options.division.chunks = 2;
  must(write_file_atomic(dir.path("set.lst.partial"), "pack"));
  must(write_file_atomic(dir.path("set_0.lst"), "7\t0\tcat/0.jpg\n"));
  must(im2rec_prefix(dir.path("set"), dir.path("images"), options, Log::silent()));
  CHECK(count_records(dir.path("set_0.rec")) == 2);
  CHECK(count_records(dir.path("set_1.rec")) == 2);
  CHECK(!std::filesystem::exists(dir.path("set.lst.partial")));
  must(write_file_atomic(dir.path("set.lst.partial"), "list"));
  const auto refused = im2rec_prefix(dir.path("set"), dir.path("images"), options, Log::silent());
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::kUsage);
  CHECK_THAT(refused.error().message, Catch::Contains("--list"));
}

TEST_CASE("the parts of a list together have its records", "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("images"), 4);
  Im2recOptions options;
  options.recursive = options.list = true;
  options.pack.pass_through = true;
  must(im2rec_prefix(dir.path("a"), dir.path("images"), options, Log::silent()));
  options.recursive = options.list = false;
  must(im2rec_list(dir.path("a.lst"), dir.path("images"), dir.path("all.rec"), options, Log::silent()));
  std::string parts;
  options.nsplit = 3;
  for (options.part = 0; options.part < 3; options.part++) {
    must(im2rec_list(dir.path("a.lst"), dir.path("images"), dir.path("out.rec"), options, Log::silent()));
    const std::string name = dir.path(fmt::format("out.rec.part00{}", options.part));
    CHECK(count_records(name) > 0);
    parts += must(read_file(name));
  }
  CHECK(parts == must(read_file(dir.path("all.rec"))));
}

TEST_CASE("im2rec never writes over its list, and knows at once that the record file is a directory",
          "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("images"), 1);
  const std::string line = "0\t1\tcat/0.jpg\n";
  must(write_file_atomic(dir.path("a.lst"), line));
  must(write_file_atomic(dir.path("b.idx"), line));
  const auto refused = [&](const char* list, const char* out) {
    const auto packed = im2rec_list(dir.path(list), dir.path("images"), dir.path(out), {}, Log::silent());
    REQUIRE(!packed);
    CHECK(packed.error().code == Code::kUsage);
    CHECK(must(read_file(dir.path(list))) == line);
    return packed.error().message;
  };
  CHECK_THAT(refused("a.lst", "a.lst"), Catch::Contains("written over the list") && Catch::Contains("a.rec"));
  CHECK_THAT(refused("b.idx", "b.rec"), Catch::Contains("b.idx' would be written over the list"));
  CHECK_THAT(refused("a.lst", "images"), Catch::Contains("is a directory") && Catch::Contains("images/a.rec"));
  CHECK(!std::filesystem::exists(dir.path("images.partial")));
}

TEST_CASE("flags that make a list are not ignored where there is one", "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("images"), 1);
  must(write_file_atomic(dir.path("a.lst"), "0\t1\tcat/0.jpg\n"));
  Im2recOptions options;
  options.recursive = true;
  options.division.chunks = 2;
  const auto refused = im2rec_list(dir.path("a.lst"), dir.path("images"), dir.path("o.rec"), options, Log::silent());
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::kUsage);
  CHECK_THAT(refused.error().message, Catch::Contains("--recursive, --chunks"));
  Im2recOptions lists;
  lists.list = true;
  CHECK(!im2rec_list(dir.path("a.lst"), dir.path("images"), dir.path("o.rec"), lists, Log::silent()));

  Log log = Log::silent();
  must(log.add_file(dir.path("log")));
  must(im2rec_prefix(dir.path("a"), dir.path("images"), options, log));
  CHECK_THAT(must(read_file(dir.path("log"))),
             Catch::Contains("already exists, so --recursive, --chunks has no effect"));
}

TEST_CASE("a part of a list that has no line is named", "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("images"), 1);
  must(write_file_atomic(dir.path("a.lst"), "0\t1\tcat/0.jpg\n"));
  Im2recOptions options;
  options.nsplit = 3;
  options.part = 2;
  const auto empty = im2rec_list(dir.path("a.lst"), dir.path("images"), dir.path("o.rec"), options, Log::silent());
  REQUIRE(!empty);
  CHECK_THAT(empty.error().message, Catch::Contains("a.lst: part 2 of 3 has no images"));
}

TEST_CASE("a list with blanks has as many labels as label_width says", "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("images"), 1);
  must(write_file_atomic(dir.path("a.lst"), "0 1 2 3 cat/0.jpg\n"));
  Im2recOptions options;
  for (const char* key : {"label_width=3", "pack_label=1", "unchanged=1"}) must(apply_im2rec_key(key, options));
  must(im2rec_list(dir.path("a.lst"), dir.path("images"), dir.path("out.rec"), options, Log::silent()));
  const std::string bytes = must(read_file(dir.path("out.rec")));
  CHECK(bytes[8] == 3);  // the flag, behind the head of the record
  options.label_width = 4;
  const auto refused = im2rec_list(dir.path("a.lst"), dir.path("images"), dir.path("b.rec"), options, Log::silent());
  REQUIRE(!refused);
  CHECK_THAT(refused.error().message, Catch::Contains("line 1 does not have 4 labels"));
}

TEST_CASE("the full path of a list stands for itself, as for im2rec.py, and other paths need the directory",
          "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("images"), 2);
  must(write_file_atomic(dir.path("a.lst"), fmt::format("0\t1\t{}\n", dir.path("images/cat/0.jpg"))));
  must(im2rec_list(dir.path("a.lst"), dir.path("nowhere"), dir.path("a.rec"), {}, Log::silent()));
  must(write_file_atomic(dir.path("b.lst"), fmt::format("0\t1\t{}\n1\t1\tcat/1.jpg\n", dir.path("images/cat/0.jpg"))));
  must(im2rec_list(dir.path("b.lst"), dir.path("images"), dir.path("b.rec"), {}, Log::silent()));
  CHECK(must(data::read_index(dir.path("b.idx"), 1'000'000)).size() == 2);
  const auto missing = im2rec_list(dir.path("b.lst"), dir.path("nowhere"), dir.path("c.rec"), {}, Log::silent());
  REQUIRE(!missing);
  CHECK(missing.error().code == Code::kNotFound);
  CHECK_THAT(missing.error().message, Catch::Contains("nowhere': there is no such directory"));
  const auto file = im2rec_list(dir.path("b.lst"), dir.path("a.lst"), dir.path("c.rec"), {}, Log::silent());
  REQUIRE(!file);
  CHECK_THAT(file.error().message, Catch::Contains("a.lst' is not a directory"));
}

TEST_CASE("im2rec says which files and classes its list leaves out", "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("images"), 1);
  std::filesystem::create_directories(dir.path("images/emu"));
  std::filesystem::copy_file(dir.path("images/cat/0.jpg"), dir.path("images/emu/1.jfif"));
  std::filesystem::copy_file(dir.path("images/cat/0.jpg"), dir.path("images/cat/plain"));
  must(write_file_atomic(dir.path("images/dog/1.webp"), std::string("RIFF\0\0\0\0WEBPVP8 ", 16)));
  must(write_file_atomic(dir.path("images/dog/notes.txt"), "a text"));
  Log log = Log::silent();
  must(log.add_file(dir.path("log")));
  Im2recOptions options;
  options.recursive = true;
  must(im2rec_prefix(dir.path("set"), dir.path("images"), options, log));
  CHECK_THAT(must(read_file(dir.path("log"))),
             Catch::Contains("left out: 1 .jfif (an image), 1 .webp, 1 without extension (an image); --exts includes "
                             "images with other extensions; no image of: emu"));
  CHECK(count_records(dir.path("set.rec")) == 2);
}

TEST_CASE("im2rec without images says what it looked for", "[dataset][data]") {
  const test::TempDir dir;
  write_directory(dir.path("images"), 1);
  const auto refused = im2rec_prefix(dir.path("set"), dir.path("images"), {}, Log::silent());
  REQUIRE(!refused);
  CHECK(refused.error().message.find("--recursive") != std::string::npos);
  for (const char* extension : {"jpg", ".JPG"}) {
    Im2recOptions options;
    options.extensions = {".png", extension};
    const auto no_extension = im2rec_prefix(dir.path("set"), dir.path("images/cat"), options, Log::silent());
    REQUIRE(!no_extension);
    CHECK(no_extension.error().code == Code::kUsage);
    CHECK_THAT(no_extension.error().message, Catch::Contains(fmt::format("--exts {}: ", extension)));
  }
  CHECK(im2rec_list(dir.path("absent.lst"), "", dir.path("out.rec"), {}, Log::silent()).error().code ==
        Code::kNotFound);
}

TEST_CASE("data index rebuilds an index and leaves broken places out", "[dataset][data]") {
  const test::TempDir dir;
  must(synthesize({.out = dir.path(), .count = 8}, Log::silent()));
  const std::string before = must(read_file(dir.path("train.idx")));
  std::filesystem::remove(dir.path("train.idx"));
  must(index_records(dir.path("train.rec"), Log::silent()));
  CHECK(must(read_file(dir.path("train.idx"))) == before);
  std::string bytes = must(read_file(dir.path("train.rec")));
  bytes[0] = 'x';
  must(write_file_atomic(dir.path("train.rec"), bytes));
  must(index_records(dir.path("train.rec"), Log::silent()));
  CHECK(count_records(dir.path("train.rec")) == 7);
  must(write_file_atomic(dir.path("text.rec"), "no record"));
  CHECK(index_records(dir.path("text.rec"), Log::silent()).error().code == Code::kData);
  CHECK(index_records(dir.path("absent.rec"), Log::silent()).error().code == Code::kNotFound);
}
