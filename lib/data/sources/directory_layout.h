// Which directories of a directory are classes, and which are parts of a data set: training, validation.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::data {

struct DirectoryLayout {
  std::string training, validation = {};   // directories of class directories; no validation: ""
  std::vector<std::string> classes = {};   // the class directories in `training`
  std::vector<std::string> left_out = {};  // names of directories beside them that are not used
  std::vector<std::string> warnings = {};
};
// Directories of `directory` are parts of a data set rather than classes if they have no images of their own and the
// same directories in them, or if one is called as training data are and has class directories, and the others are
// called as validation data are. Their names then tell which is which: training before the rest, and of val, valid,
// validation, dev, eval and test the first one; in any case, with a year or another word beside it (train2017,
// seg_test). Directories without an image are left out, and beside one called images those called annotations or masks.
// A single directory is looked into. Otherwise the directories are classes.
//
// Code::kUsage: they are parts, but their names do not tell of what; kNotFound: there are no directories of images;
// kData: they have other files only.
Result<DirectoryLayout> directory_layout(const std::string& directory);

}  // namespace dtrain::data
