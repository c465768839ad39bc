// Pictures in a folder that has a folder for each class.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/sources/image_source.h"

namespace dtrain::data {

// The extensions of the files that are taken for pictures: those of the formats that ImageDecoder reads.
const std::vector<std::string>& picture_extensions();

// The names of the folders in `root`, in the order of their bytes; without those that begin with a dot. Links count.
// Code::kNotFound.
Result<std::vector<std::string>> folders_in(const std::string& root);

// The most pictures of a set.
constexpr int64_t kFolderFilesMax = int64_t{1} << 24;

// The pictures in the folders `classes` of `root`, at any depth: the first folder's have the label 0, and so on. In a
// folder they are in the order of list_folder. Code::kNotFound: a class has no folder; kData: no pictures in one of the
// folders, or too many.
Result<std::shared_ptr<const ImageSource>> open_folder(const std::string& root, const std::vector<std::string>& classes,
                                                       int channels);

}  // namespace dtrain::data
