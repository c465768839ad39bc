// Which folders of a directory are classes, and which are parts of a data set: training, validation.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::data {

struct FolderLayout {
  std::string training, validation = {};   // folders of class folders; no validation: ""
  std::vector<std::string> classes = {};   // the class folders in `training`
  std::vector<std::string> left_out = {};  // names of folders beside them that are not used
  std::vector<std::string> warnings = {};
};
// Folders of `directory` are parts of a data set rather than classes if they have no pictures of their own and the same
// folders in them, or if one is called as training data are and has class folders, and the others are called as
// validation data are. Their names then tell which is which: training before the rest, and of val, valid, validation,
// dev, eval and test the first one; in any case, with a year or another word beside it (train2017, seg_test).
// Folders without a picture are left out, and beside one called images those called annotations or masks. A single
// folder is looked into. Otherwise the folders are classes.
//
// Code::kUsage: they are parts, but their names do not tell of what; kNotFound: there are no folders of pictures;
// kData: they have other files only.
Result<FolderLayout> folder_layout(const std::string& directory);

}  // namespace dtrain::data
