// The mean picture of a training set: an NDArray file with one float32 array [c, h, w] (docs/formats.md, "NDArray
// files").
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/distortion.h"
#include "data/image_source.h"
#include "tensor/shape.h"

namespace dtrain::data {

// Reads the file at `path`; makes it first if it is not there: the mean over all pictures of `source`, each cut as
// `distortion` says, in which nothing is random, and not normalised. The bytes depend on the pictures alone, so workers
// may do this side by side. Pictures that do not decode are left out. Code::kData if the array's shape is not `image`.
Result<std::shared_ptr<const std::vector<float>>> mean_image(const std::string& path, const Shape& image,
                                                             const Distortion& distortion,
                                                             std::shared_ptr<const ImageSource> source, int threads,
                                                             const Log& log);

}  // namespace dtrain::data
