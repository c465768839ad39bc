// Carries out the geometric steps of an augmentation (augmentation.h): decodes the part of the image that they need,
// and produces the crop row by row.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "images/augmentation/augmentation.h"
#include "images/bilinear.h"
#include "images/image.h"
#include "images/open_image.h"

namespace dtrain::images {

// Memory for intermediate images, reused for one image after another.
struct ImageMemory {
  Image first, second;
  BilinearMemory bilinear;
};

// Provides the rows of a crop in order, each once. The rows either belong to an image in memory or are resized on
// demand, so that the resized image is never stored.
class CropRows {
 public:
  explicit CropRows(const ImageView& image) : image_(image) {}
  explicit CropRows(BilinearRows rows) : resized_(rows) {}

  // Returns the pixels of row y, as [width][channels]. They are valid until the next call.
  const uint8_t* row(int y) { return resized_ ? resized_->row(y) : image_.at(y, 0); }

 private:
  ImageView image_ = {};
  std::optional<BilinearRows> resized_;
};

// The part of an image of size `from` that the steps need.
Window needed_part(std::span<const GeometryStep> steps, const ImageSize& from);

// Decodes the needed part and carries out the steps. The result borrows the image and the memory. Code::kData: the file
// is damaged, or OpenCV cannot carry out a step.
Result<CropRows> make_crop(std::span<const GeometryStep> steps, OpenImage& image, ImageMemory& memory);

}  // namespace dtrain::images
