// Divides a list of images into lists for training, validation and testing, into chunks, and into parts that several
// hosts pack. It follows the rules of MXNet's im2rec.py and im2rec.cc, so the resulting files are the same.
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
  // Fraction of a chunk's images that are for training; with 1, each chunk has a single list, without "_train" in its
  // name.
  double train_ratio = 1.0;
  double test_ratio = 0.0;  // fraction of a chunk's images that are for testing
  // Fraction of the images of each class; excludes the three values above. 0: no such division.
  double val_fraction = 0.0;
  uint64_t seed = 0;  // seed that determines which images val_fraction selects
};
// Code::kUsage if a value is out of range, if the ratios sum to more than 1, or if val_fraction is combined with
// another division.
Result<> check(const ListDivision& division);

struct NamedList {
  // What is added to the list's name: "", "_train", "_val", "_test"; with several chunks "_0", "_0_train" and so on.
  std::string suffix;
  std::vector<data::ListEntry> entries;
};
// Chunk i has the entries [i c, (i + 1) c), where c = ceil(n / chunks). In each chunk the first floor(c test_ratio)
// entries are for testing and the next floor(c train_ratio) for training; if the ratios sum to less than 1, the rest is
// for validation. A last chunk with fewer than c entries is divided at the same positions.
// With a val_fraction, round(n val_fraction) of the n images of each class (the images with the same first label) go to
// the list "_val", and the others to "_train". Both lists get at least one image of each class; a class with a single
// image goes to "_train". The choice depends on the seed, the label and the ids, not on the order of `entries`. Both
// lists keep that order.
std::vector<NamedList> divide_list(const std::vector<data::ListEntry>& entries, const ListDivision& division);

// Returns the lines of part number `part` of `count` parts. The text is cut into `count` pieces of equal size in bytes,
// and each cut is then moved to the beginning of the next line, as in dmlc-core's text splitter. Each line belongs to
// exactly one part; a part may be empty.
std::string_view part_of_lines(std::string_view text, int part, int count);

}  // namespace dtrain::dataset
