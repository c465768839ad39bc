#include "data/packing/list_files.h"

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::data;

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
        ListDivision{.train_ratio = 0.8, .test_ratio = 0.3}, ListDivision{.test_ratio = 0.1}}) {
    const auto refused = check(division);
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::kUsage);
  }
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
