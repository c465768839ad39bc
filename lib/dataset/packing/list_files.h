// Divides a list of images: into the files of a training, validation and test set, into chunks, and into the parts that
// several hosts pack. The rules are those of MXNet's im2rec.py and im2rec.cc, so the files are equal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/records/image_list.h"

namespace dtrain::dataset {

struct ListDivision {
  int chunks = 1;
  double train_ratio = 1.0;   // 1: one list for each chunk, without "_train" in its name
  double test_ratio = 0.0;    // fraction of the whole list, like train_ratio
  double val_fraction = 0.0;  // fraction of each class; excludes the three above. 0: no such division
  uint64_t seed = 0;          // determines the images of val_fraction
};
// Code::kUsage if a value is out of range, if the ratios sum to more than 1, or if val_fraction is given with another
// division.
Result<> check(const ListDivision& division);

struct NamedList {
  std::string suffix;  // "", "_train", "_val", "_test"; with several chunks "_0", "_0_train" and so on
  std::vector<data::ListEntry> entries;
};
// Chunk i has the entries [i c, (i + 1) c), where c = ceil(n / chunks). In each chunk the first floor(c test_ratio)
// entries are for testing, the next floor(c train_ratio) for training, and the rest for validation if the ratios sum to
// less than 1. A short last chunk is divided at the same positions.
// With a val_fraction, each class (the images with the same first label) gives round(n val_fraction) of its n images to
// "_val" and the others to "_train": at least one image to each, and a single image to "_train". The choice depends on
// the seed, the label and the ids, not on the order of `entries`, which both lists keep.
std::vector<NamedList> divide_list(const std::vector<data::ListEntry>& entries, const ListDivision& division);

// The lines of part `part` of `count`. The text is cut into `count` pieces of equal size in bytes, and each cut is
// moved to the beginning of the next line, as dmlc-core's text splitter does. The parts are disjoint and complete; a
// part may be empty.
std::string_view part_of_lines(std::string_view text, int part, int count);

}  // namespace dtrain::dataset
