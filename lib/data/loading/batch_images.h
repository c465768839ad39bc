// Makes viewable images of a batch, so that a user can see the images as training sees them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/loading/loader.h"
#include "images/contact_sheet.h"

namespace dtrain::data {

// The image in row `row` of the batch, whose images have the shape [c, h, w] with 1, 3 or 4 channels. Floats are scaled
// to pixels so that the image's smallest float becomes black and its largest white.
images::Image image_of(const LoadedBatch& batch, const Shape& shape, int64_t row);

// The first `count` images of the batch, whose images have the shape [c, h, w], for a contact sheet. The caption of
// each image consists of its first label, the name of that class if it has one, and the number of its record: "3 cat
// #1234".
std::vector<images::SheetImage> images_of(const LoadedBatch& batch, const Shape& shape, int64_t count,
                                          std::span<const std::string> class_names);

}  // namespace dtrain::data
