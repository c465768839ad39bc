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

// The maximum number of images in a set.
constexpr int64_t kDirectoryFilesMax = int64_t{1} << 24;

struct DirectorySource {
  std::shared_ptr<const ImageSource> images;
  std::vector<int64_t> by_class;  // number of images of each class; may be 0
  OtherFiles others;
};
// The images in the subdirectories `classes` of `root`, at any depth. The images of the first class have the label 0,
// and so on. Within a directory they are in the order of list_images. A class may have no directory. Code::kNotFound:
// `root` does not exist; kData: there are no images at all, or too many.
Result<DirectorySource> open_directory(const std::string& root, const std::vector<std::string>& classes, int channels);

}  // namespace dtrain::data
