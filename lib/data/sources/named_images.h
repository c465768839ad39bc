// Images without labels, for a trained model to classify.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/sources/image_source.h"

namespace dtrain::data {

// Reads an image file and opens it in `scratch`. Code::kData with the file and the reason, even if the file does not
// exist: a single missing image among many is no reason to stop.
Result<> read_image(const std::string& path, int channels, ReadScratch& scratch);

// True if the name is that of a file that holds several images: .rec, images-idx3-ubyte or .bin.
bool is_set_file(const std::string& name);

// The images that the names refer to, in this order. A name may be an image file; a directory, for the image files in
// it, at any depth; a record file (.rec); an idx file of images (idx_source.h); or a binary file of CIFAR (.bin). The
// images have no labels. Image files are opened when they are read. Code::kNotFound: a file of several images does not
// exist; kData: it is broken, or a directory has no images.
Result<std::shared_ptr<const ImageSource>> open_images(const std::vector<std::string>& names, int channels,
                                                       const Log& log);

}  // namespace dtrain::data
