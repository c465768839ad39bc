// A single image that shows several small images in a grid, each with a line of text below it.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "images/image.h"

namespace dtrain::images {

struct SheetImage {
  Image image;       // with 1, 3 or 4 channels
  std::string text;  // truncated to the width of the image; characters that are not ASCII become '?'
};

// Makes the sheet. All images must have the same size. Code::kData if the sheet would have more than kImagePixelsMax
// pixels.
Result<Image> contact_sheet(const std::vector<SheetImage>& images);

}  // namespace dtrain::images
