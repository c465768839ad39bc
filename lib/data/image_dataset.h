// A Dataset of the pictures of a source, augmented and normalized.
#pragma once

#include <memory>

#include "data/augment.h"
#include "data/image_source.h"
#include "data/loader.h"

namespace dtrain::data {

std::shared_ptr<const Dataset> augmented(std::shared_ptr<const ImageSource> source, AugmentOptions options);

}  // namespace dtrain::data
