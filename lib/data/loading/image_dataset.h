// A Dataset of the pictures of a source, augmented and normalized.
#pragma once

#include <memory>

#include "data/augmentation/augment.h"
#include "data/loading/loader.h"
#include "data/sources/image_source.h"

namespace dtrain::data {

std::shared_ptr<const Dataset> augmented(std::shared_ptr<const ImageSource> source, AugmentOptions options);

}  // namespace dtrain::data
