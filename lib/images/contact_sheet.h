// Small pictures side by side in one, each with a line of text below it.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "images/image.h"

namespace dtrain::images {

struct SheetPicture {
  Image image;       // with 1, 3 or 4 channels
  std::string text;  // cut to the width of the picture; characters that are not ASCII become '?'
};

// All pictures must have the same size. Code::kData if the sheet would have more than kPicturePixelsMax pixels.
Result<Image> contact_sheet(const std::vector<SheetPicture>& pictures);

}  // namespace dtrain::images
