// Images in a directory that has one subdirectory per class.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/sources/image_directory.h"
#include "data/sources/image_source.h"

namespace dtrain::data {

// The most images of a set.
constexpr int64_t kDirectoryFilesMax = int64_t{1} << 24;

struct DirectorySource {
  std::shared_ptr<const ImageSource> images;
  std::vector<int64_t> by_class;  // how many images each class has, which may be none
  OtherFiles others;
};
// The images in the directories `classes` of `root`, at any depth: the first directory's have the label 0, and so on.
// In a directory they are in the order of list_images. A class may have no directory. Code::kNotFound: there is no such
// root; kData: no images at all, or too many.
Result<DirectorySource> open_directory(const std::string& root, const std::vector<std::string>& classes, int channels);

}  // namespace dtrain::data
