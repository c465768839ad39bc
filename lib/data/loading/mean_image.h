// The mean image of a training set: an NDArray file with one float32 array [c, h, w] (docs/formats.md, "NDArray
// files").
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/sources/image_source.h"
#include "images/augmentation/distortion.h"
#include "tensor/shape.h"

namespace dtrain::data {

// Reads the file at `path`. If it does not exist, creates it first. The mean image is the mean over all images of
// `source`, each cropped as `distortion` says (which must not be random) and not normalized. Images that do not decode
// are left out. The content depends only on the images, so several workers may create the file at the same time.
// Code::kData if the array's shape is not `image`.
Result<std::shared_ptr<const std::vector<float>>> mean_image(const std::string& path, const Shape& image,
                                                             const images::Distortion& distortion,
                                                             std::shared_ptr<const ImageSource> source, int threads,
                                                             const Log& log);

}  // namespace dtrain::data
