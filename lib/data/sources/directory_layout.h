// Decides which subdirectories of a directory are classes, and which are parts of a data set: training, validation.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::data {

struct DirectoryLayout {
  // Directories that contain class directories; `validation` is empty if there is none.
  std::string training, validation = {};
  std::vector<std::string> classes = {};   // the class directories in `training`
  std::vector<std::string> left_out = {};  // names of directories next to these that are not used
  std::vector<std::string> warnings = {};
};
// Subdirectories of `directory` are parts of a data set rather than classes in two cases: if they have no images of
// their own and contain subdirectories of the same names; or if one has a usual name for training data and contains
// class directories, and the others have usual names for validation data. The names then decide the roles: training
// comes first, and the validation set is the first that exists of val, valid, validation, dev, eval and test. Letter
// case and further words, such as a year, do not matter (train2017, seg_test). Directories without an image are left
// out; so are directories called annotations or masks next to one called images. If there is a single subdirectory, its
// contents are used instead. In all other cases the subdirectories are classes.
//
// Code::kUsage: the subdirectories are parts, but their names do not show which; kNotFound: there are no directories of
// images; kData: they contain only other files.
Result<DirectoryLayout> directory_layout(const std::string& directory);

}  // namespace dtrain::data
