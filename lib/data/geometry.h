// The geometric steps of augmentation, which turn a decoded picture into one that contains the crop: resize, affine
// map, border, crop.
#pragma once

#include "base/error.h"
#include "base/random.h"
#include "data/distortion.h"
#include "data/image.h"

namespace dtrain::data {

// Memory for intermediate pictures, reused for one picture after another.
struct PictureMemory {
  Image first, second;
};

// A picture on its way through the steps. A step reads it from where it is, and writes the result to the other piece of
// memory. Borrows the decoded picture, which is never changed, and the memory.
class Picture {
 public:
  Picture(const Image& decoded, PictureMemory& memory) : now_(&decoded), memory_(memory) {}

  [[nodiscard]] const Image& image() const { return *now_; }
  [[nodiscard]] Image& next() { return now_ == &memory_.first ? memory_.second : memory_.first; }
  // Call after next() has been written: it becomes the picture. The result may be changed in place.
  Image& advance() {
    Image& made = next();
    now_ = &made;
    return made;
  }

 private:
  const Image* now_;
  PictureMemory& memory_;
};

// Maps source (x, y) to destination, row by row, and has the size of the destination.
struct AffineMap {
  float m[2][3];
  int64_t height, width;
};
struct AffineDraw {
  float shear = 0;
  int angle = 0;  // degrees
  float scale = 1, ratio = 1;
};
// The destination has the scaled size, within the bounds of `distortion`, and at least one pixel; the aspect ratio
// stretches the picture inside it. Computed in float, as MXNet does.
AffineMap affine_map(int height, int width, const AffineDraw& draw, const Distortion& distortion);

// Resizes, applies the affine map and adds the border, as `distortion` says. Code::kData if a result would be too
// large.
Result<> transform(const Distortion& distortion, Picture& picture, RandomStream& random);

struct Corner {
  int y = 0, x = 0;
};
// Turns the picture into one that contains the crop of height x width, and returns the crop's corner. A picture that is
// too small is enlarged: first to `height` rows, then to `width` columns, both times rounding the other edge down.
// Code::kData if the result would be too large, or the picture is smaller than crop_size_max.
Result<Corner> find_crop(const Distortion& distortion, int height, int width, Picture& picture, RandomStream& random);

// Reduces the picture to the part of height x width at `corner`.
Image& cut(Picture& picture, Corner corner, int height, int width);

}  // namespace dtrain::data
