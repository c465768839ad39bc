// A Dataset of the images of a source, augmented and normalized.
#pragma once

#include <memory>

#include "data/loading/loader.h"
#include "data/sources/image_source.h"
#include "images/augmentation/augment.h"

namespace dtrain::data {

std::shared_ptr<const Dataset> augmented(std::shared_ptr<const ImageSource> source, images::AugmentOptions options);

}  // namespace dtrain::data
