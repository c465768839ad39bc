// How a list of images is divided: into the files of a training, validation and test set, into chunks, and into the
// parts that several machines pack. The rules are those of MXNet's im2rec.py and im2rec.cc, so that the files are equal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/records/image_list.h"

namespace dtrain::data {

struct ListDivision {
  int chunks = 1;
  double train_ratio = 1.0;  // 1: one list for each chunk, without "_train" in its name
  double test_ratio = 0.0;
};
// Code::kUsage if a value is out of range, or the ratios sum to more than 1.
Result<> check(const ListDivision& division);

struct NamedList {
  std::string suffix;  // "", "_train", "_val", "_test"; with several chunks "_0", "_0_train" and so on
  std::vector<ListEntry> entries;
};
// Chunk i has the entries [i c, (i + 1) c), where c = ceil(n / chunks). Of each chunk the first floor(c test_ratio) are
// for testing, the next floor(c train_ratio) for training, and the rest for validation if the ratios sum to less
// than 1. A short last chunk is divided at the same places.
std::vector<NamedList> divide_list(const std::vector<ListEntry>& entries, const ListDivision& division);

// The lines of part `part` of `count`. The text is cut into `count` pieces of equally many bytes, and each cut is moved
// to the beginning of the next line, as dmlc-core's splitter of texts does. The parts are disjoint and complete; a part
// may be empty.
std::string_view part_of_lines(std::string_view text, int part, int count);

}  // namespace dtrain::data
