// Images whose labels do not matter: those that a trained model is to classify.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/sources/image_source.h"

namespace dtrain::data {

// Reads an image file and opens it in `scratch`. Code::kData with the file and the reason, also if there is no such
// file: one image of many is gone then, which is no reason to end.
Result<> read_image(const std::string& path, int channels, ReadScratch& scratch);

// Whether the name is that of a file of several images: .rec, images-idx3-ubyte or .bin.
bool is_set_file(const std::string& name);

// The images that the names stand for, in this order: an image file; a directory, for the image files in it, at any
// depth; a record file (.rec); an idx file of images (idx_source.h); a binary file of CIFAR (.bin). They have no
// labels. Image files are opened when they are read. Code::kNotFound: a file of several images does not
// exist; kData: it is broken, or a directory has no images.
Result<std::shared_ptr<const ImageSource>> open_images(const std::vector<std::string>& names, int channels,
                                                       const Log& log);

}  // namespace dtrain::data
