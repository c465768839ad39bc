// Pictures in a folder that has a folder for each class.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/sources/image_source.h"
#include "data/sources/picture_folder.h"

namespace dtrain::data {

// The most pictures of a set.
constexpr int64_t kFolderFilesMax = int64_t{1} << 24;

struct FolderSource {
  std::shared_ptr<const ImageSource> pictures;
  std::vector<int64_t> by_class;  // how many pictures each class has, which may be none
  OtherFiles others;
};
// The pictures in the folders `classes` of `root`, at any depth: the first folder's have the label 0, and so on. In a
// folder they are in the order of list_pictures. A class may have no folder. Code::kNotFound: there is no such root;
// kData: no pictures at all, or too many.
Result<FolderSource> open_folder(const std::string& root, const std::vector<std::string>& classes, int channels);

}  // namespace dtrain::data
