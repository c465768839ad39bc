#include "data/records/label_list.h"

#include "data/loading/open.h"
#include "data/sources/record_source.h"
#include "make_images.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using Catch::Matchers::Contains;
using dtrain::test::must;

namespace {

std::vector<float> labels_of(const LabelList& list, uint64_t id) {
  const std::span<const float> found = list.find(id);
  return {found.begin(), found.end()};
}

std::string why_refused(const std::string& text, size_t label_width) {
  const auto list = LabelList::parse(text, "x.lst", label_width);
  CHECK(list.error().code == Code::kUsage);
  return list.error().message;
}

}  // namespace

TEST_CASE("a list of labels is read with TABs and with blanks, in any order of ids", "[data]") {
  const auto list =
      must(LabelList::parse("7\t2.000000\ta b.jpg\r\n\n 3  1.5 c d.jpg\n18446744073709551615\t-1\tx", "x.lst", 1));
  CHECK(list->size() == 3);
  CHECK(labels_of(*list, 7) == std::vector{2.0f});
  CHECK(labels_of(*list, 3) == std::vector{1.5f});
  CHECK(labels_of(*list, UINT64_MAX) == std::vector{-1.0f});
  CHECK(labels_of(*list, 4).empty());
  const auto several = must(LabelList::parse("1 5 6 p.jpg\n2\t7\t8\tq.jpg\n", "x.lst", 2));
  CHECK(labels_of(*several, 1) == std::vector{5.0f, 6.0f});
  CHECK(labels_of(*several, 2) == std::vector{7.0f, 8.0f});
}

TEST_CASE("the byte order mark of an editor is no part of a list of labels", "[data]") {
  CHECK(labels_of(*must(LabelList::parse("\xef\xbb\xbf"
                                         "7\t2\ta.jpg\n",
                                         "x.lst", 1)),
                  7) == std::vector{2.0f});
}

TEST_CASE("a wrong line of a list of labels is refused with its number", "[data]") {
  CHECK_THAT(why_refused("1\t2\ta\nx\t2\tb\n", 1), Contains("--path-imglist x.lst: line 2: 'x' is not an id"));
  CHECK_THAT(why_refused("1\t2\ta\n\n-2x\t2\tb\n", 1), Contains("line 3: '-2x' is not an id"));
  CHECK_THAT(why_refused("1\tcat\ta\n", 1), Contains("line 1: 'cat' is not a label"));
  CHECK_THAT(why_refused("1\tnan\ta\n", 1), Contains("line 1: 'nan' is not a label"));
  CHECK_THAT(why_refused("1\t2\n", 1),
             Contains("line 1: the line has 2 fields, but an id, 1 label (--label-width) and a path make 3"));
  CHECK_THAT(why_refused("1\t2\t3\ta\n", 1), Contains("has 4 fields"));
  CHECK_THAT(why_refused("1\t2\t\n", 1), Contains("there is no path after the labels"));
  CHECK_THAT(why_refused("1 2\n", 1), Contains("there is no path after the labels"));
  CHECK_THAT(why_refused("1 2\n", 2), Contains("ends before label 2 of 2"));
  CHECK_THAT(why_refused("1 2 a\n5 2 b\n1 3 c\n", 1), Contains("line 3: id 1 is already in line 1"));
  CHECK_THAT(why_refused("\n \n", 1), Contains("the list is empty"));
  CHECK(LabelList::read("/nowhere/x.lst", 1).error().code == Code::kNotFound);
}

TEST_CASE("a list of labels ends anywhere and has any bit flipped without harm", "[data]") {
  const std::string text = "10\t2.5\ta.jpg\n11 3 b c.jpg\n12\t0\td\n";
  for (size_t length = 0; length <= text.size(); length++) {
    const auto list = LabelList::parse(text.substr(0, length), "x.lst", 1);
    CHECK((list || list.error().code == Code::kUsage));
  }
  for (size_t bit = 0; bit < 8 * text.size(); bit++) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const auto list = LabelList::parse(flipped, "x.lst", 1);
    CHECK((list || list.error().code == Code::kUsage));
  }
}

TEST_CASE("the classes and the hash of a list of labels depend on ids and labels alone", "[data]") {
  const auto list = must(LabelList::parse("1 0 a\n2 1 b\n3 2 c\n", "x.lst", 1));
  CHECK(list->classes() == 3);
  CHECK(list->hash() == must(LabelList::parse("3\t2\tz\n1\t0\ty\n2\t1\tx\n", "y.lst", 1))->hash());
  CHECK(list->hash() != must(LabelList::parse("1 0 a\n2 1 b\n3 1 c\n", "x.lst", 1))->hash());
  CHECK(list->hash() != must(LabelList::parse("1 0 a\n2 1 b\n4 2 c\n", "x.lst", 1))->hash());
  CHECK(must(LabelList::parse("1 0 a\n2 2 b\n", "x.lst", 1))->classes() == std::nullopt);
  CHECK(must(LabelList::parse("1 0 a\n2 0.5 b\n", "x.lst", 1))->classes() == std::nullopt);
}

// The records have one label each; the list gives two.
TEST_CASE("training records are labeled by the list, validation records by themselves", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), 3, 8, 8, 3, 2);
  test::write_record_file(dir.path("val.rec"), 3, 8, 8, 3, 2);
  test::write_text(dir.path("labels.lst"), "0\t5\ta\n2\t7\tc\n");
  DataOptions options;
  options.data_train = dir.path("train.rec");
  options.data_val = dir.path("val.rec");
  options.image_shape = {3, 8, 8};
  options.label_list = dir.path("labels.lst");
  const DataSets sets = must(open_dataset(options, Log::silent()));
  std::vector<float> pixels(3 * 8 * 8);
  float label = 0;
  const auto load = [&](const Dataset& set, int64_t record) {
    RandomStream random(1, Use::kTest);
    return set.load(record, random, pixels, {&label, 1});
  };
  must(load(*sets.train, 2));
  CHECK(label == 7.0f);
  must(load(*sets.validation, 1));
  CHECK(label == 1.0f);

  // The record is sound, so it is not skipped: the run ends.
  const Error error = load(*sets.train, 1).error();
  CHECK(error.code == Code::kUsage);
  CHECK_THAT(error.message, Contains("train.rec: record 1 at offset") && Contains("has the id 1") &&
                                Contains("labels.lst has no labels"));
  Loader loader(sets.train, {.share = {0, 3}, .batch_size = 3}, Log::silent());
  loader.start(0);
  CHECK(loader.next().error().code == Code::kUsage);

  options.label_width = 2;
  options.data_val.clear();
  test::write_text(dir.path("labels.lst"), "0 5 1 a\n1 6 2 b\n2 7 3 c\n");
  const DataSets two = must(open_dataset(options, Log::silent()));
  std::vector<float> labels(2);
  RandomStream random(1, Use::kTest);
  must(two.train->load(1, random, pixels, labels));
  CHECK(labels == std::vector{6.0f, 2.0f});
}

TEST_CASE("a list of labels needs record files", "[data]") {
  const test::TempDir dir;
  DataOptions options;
  options.data_train = dir.path("cats");
  std::filesystem::create_directories(dir.path("cats/a"));
  test::write_bytes(dir.path("cats/a/1.png"), must(encode_image(test::gradient_image(8, 8, 3, 1), ".png", 3)));
  options.image_shape = {3, 8, 8};
  options.label_list = dir.path("labels.lst");
  const Error error = open_dataset(options, Log::silent()).error();
  CHECK(error.code == Code::kUsage);
  CHECK_THAT(error.message, Contains("assigns labels to records by their ids"));
}
