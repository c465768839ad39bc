// Carries out the geometric steps of an augmentation (augmentation.h): decodes the part of the picture that they need,
// and makes the crop row by row.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "images/augmentation/augmentation.h"
#include "images/bilinear.h"
#include "images/image.h"
#include "images/open_picture.h"

namespace dtrain::images {

// Memory for intermediate pictures, reused for one picture after another.
struct PictureMemory {
  Image first, second;
  BilinearMemory bilinear;
};

// The rows of a crop, from the first to the last, each once: those of a picture in memory, or resized when they are
// asked for, so that the resized picture is never stored.
class CropRows {
 public:
  explicit CropRows(const PictureView& picture) : picture_(picture) {}
  explicit CropRows(BilinearRows rows) : resized_(rows) {}

  // [width][channels], valid until the next call.
  const uint8_t* row(int y) { return resized_ ? resized_->row(y) : picture_.at(y, 0); }

 private:
  PictureView picture_ = {};
  std::optional<BilinearRows> resized_;
};

// The part of a picture of size `from` that the steps need.
Window needed_part(std::span<const GeometryStep> steps, const ImageSize& from);

// Decodes this part and carries out the steps. The result borrows the picture and the memory. Code::kData: the file is
// damaged, or OpenCV cannot carry out a step.
Result<CropRows> make_crop(std::span<const GeometryStep> steps, OpenPicture& picture, PictureMemory& memory);

}  // namespace dtrain::images
