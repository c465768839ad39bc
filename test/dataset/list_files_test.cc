#include "dataset/packing/list_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::dataset;

namespace {

// "SUFFIX: ids" for each list of n entries with the ids 0 .. n-1.
std::string divided(int n, const ListDivision& division) {
  std::vector<ListEntry> entries;
  for (int i = 0; i < n; i++) entries.push_back({static_cast<uint64_t>(i), {0}, "x"});
  std::string text;
  for (const NamedList& list : divide_list(entries, division)) {
    text += list.suffix + ":";
    for (const ListEntry& entry : list.entries) text += fmt::format(" {}", entry.id);
    text += "; ";
  }
  return text;
}

}  // namespace

// The expected lists are those of MXNet 1.9.1's im2rec.py with the same options.
TEST_CASE("a list is divided into sets as im2rec.py divides it", "[data]") {
  CHECK(divided(3, {}) == ": 0 1 2; ");
  CHECK(divided(10, {.train_ratio = 0.7}) == "_val: 7 8 9; _train: 0 1 2 3 4 5 6; ");
  CHECK(divided(10, {.train_ratio = 0.5, .test_ratio = 0.2}) == "_test: 0 1; _val: 7 8 9; _train: 2 3 4 5 6; ");
  CHECK(divided(10, {.train_ratio = 0.75, .test_ratio = 0.25}) == "_test: 0 1; _train: 2 3 4 5 6 7 8; ");
  CHECK(divided(2, {.train_ratio = 0.3}) == "_val: 0 1; _train:; ");
}

TEST_CASE("chunks are equally long but the last, and each is divided at the same places", "[data]") {
  CHECK(divided(5, {.chunks = 2}) == "_0: 0 1 2; _1: 3 4; ");
  CHECK(divided(4, {.chunks = 3}) == "_0: 0 1; _1: 2 3; _2:; ");
  CHECK(divided(7, {.chunks = 2, .train_ratio = 0.5, .test_ratio = 0.25}) ==
        "_0_test: 0; _0_val: 3; _0_train: 1 2; _1_test: 4; _1_val:; _1_train: 5 6; ");
}

TEST_CASE("divisions that make no sense are usage errors", "[data]") {
  CHECK(check(ListDivision{.train_ratio = 0.7, .test_ratio = 0.3}));
  for (const ListDivision& division :
       {ListDivision{.chunks = 0}, ListDivision{.train_ratio = 1.5}, ListDivision{.train_ratio = -0.1},
        ListDivision{.train_ratio = 0.8, .test_ratio = 0.3}, ListDivision{.test_ratio = 0.1},
        ListDivision{.val_fraction = 1}, ListDivision{.val_fraction = -0.1},
        ListDivision{.chunks = 2, .val_fraction = 0.1}, ListDivision{.train_ratio = 0.5, .val_fraction = 0.1}}) {
    const auto refused = check(division);
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::kUsage);
  }
}

namespace {

// `counts[label]` images of each label, in the order of im2rec's lists: by label.
std::vector<ListEntry> images_of_classes(const std::vector<int>& counts) {
  std::vector<ListEntry> entries;
  for (size_t label = 0; label < counts.size(); label++) {
    for (int i = 0; i < counts[label]; i++) {
      entries.push_back({entries.size(), {static_cast<float>(label)}, fmt::format("{}/{}", label, i)});
    }
  }
  return entries;
}

std::vector<uint64_t> ids_of(const NamedList& list) {
  std::vector<uint64_t> ids;
  for (const ListEntry& entry : list.entries) ids.push_back(entry.id);
  return ids;
}

std::vector<int> counts_of(const NamedList& list, size_t classes) {
  std::vector<int> counts(classes);
  for (const ListEntry& entry : list.entries) counts[static_cast<size_t>(entry.labels[0])]++;
  return counts;
}

}  // namespace

TEST_CASE("a fraction of each class is for validation, and every class of two or more is in both lists", "[data]") {
  const std::vector<int> counts = {100, 15, 4, 2, 1, 0, 25};
  const std::vector<ListEntry> entries = images_of_classes(counts);
  const auto lists = divide_list(entries, {.val_fraction = 0.1});
  REQUIRE(lists.size() == 2);
  CHECK(lists[0].suffix == "_train");
  CHECK(lists[1].suffix == "_val");
  CHECK(counts_of(lists[1], counts.size()) == std::vector<int>{10, 2, 1, 1, 0, 0, 3});
  CHECK(counts_of(lists[0], counts.size()) == std::vector<int>{90, 13, 3, 1, 1, 0, 22});
  std::vector<uint64_t> all = ids_of(lists[0]);
  CHECK(std::ranges::is_sorted(all));  // the order of the entries
  for (const uint64_t id : ids_of(lists[1])) all.push_back(id);
  std::ranges::sort(all);
  std::vector<uint64_t> expected(entries.size());
  std::iota(expected.begin(), expected.end(), 0U);
  CHECK(all == expected);  // disjoint and complete
  CHECK(counts_of(divide_list(entries, {.val_fraction = 0.99})[0], counts.size()) ==
        std::vector<int>{1, 1, 1, 1, 1, 0, 1});
}

TEST_CASE("the images for validation follow from the seed and not from the order of the list", "[data]") {
  std::vector<ListEntry> entries = images_of_classes({60, 40});
  const auto sorted_ids = [&](uint64_t seed) {
    std::vector<uint64_t> ids = ids_of(divide_list(entries, {.val_fraction = 0.3, .seed = seed})[1]);
    std::ranges::sort(ids);
    return ids;
  };
  const auto first = sorted_ids(7);
  CHECK(first.size() == 30);
  CHECK(sorted_ids(7) == first);
  CHECK(sorted_ids(8) != first);
  std::ranges::reverse(entries);
  CHECK(sorted_ids(7) == first);
}

// A cut at a line's first byte moves to the next line, as in dmlc-core.
TEST_CASE("the parts of a text are whole lines, disjoint and complete", "[data]") {
  const std::string text = "aa\nbbbb\nc\ndddddd\n";  // lines at 0, 3, 8, 10
  CHECK(part_of_lines(text, 0, 1) == text);
  CHECK(part_of_lines(text, 0, 2) == "aa\nbbbb\nc\n");  // the cut is at 9
  CHECK(part_of_lines(text, 1, 2) == "dddddd\n");
  CHECK(part_of_lines("aa\nbb\ncc\ndd\n", 0, 2) == "aa\nbb\ncc\n");  // at 6, where a line begins
  for (const std::string& each : {text, std::string("one"), std::string("\r\n\r\n1\r\n2"), std::string()}) {
    for (int count = 1; count < 9; count++) {
      std::string all;
      for (int part = 0; part < count; part++) all += part_of_lines(each, part, count);
      CHECK(all == each);
    }
  }
}
