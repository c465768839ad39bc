// Pictures whose labels do not matter: those that a trained model is to classify.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/sources/image_source.h"

namespace dtrain::data {

// Reads an image file and opens it in `scratch`. Code::kData with the file and the reason, also if there is no such
// file: one picture of many is gone then, which is no reason to end.
Result<> read_picture(const std::string& path, int channels, ReadScratch& scratch);

// Whether the name is that of a file of several pictures: .rec, images-idx3-ubyte or .bin.
bool is_set_file(const std::string& name);

// The pictures that the names stand for, in this order: an image file; a folder, for the image files in it, at any
// depth; a record file (.rec); an idx file of images (idx_source.h); a binary file of CIFAR (.bin). They have no
// labels. images::Image files are opened when they are read. Code::kNotFound: a file of several pictures does not
// exist; kData: it is broken, or a folder has no pictures.
Result<std::shared_ptr<const ImageSource>> open_pictures(const std::vector<std::string>& names, int channels,
                                                         const Log& log);

}  // namespace dtrain::data
