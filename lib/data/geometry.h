// The geometric steps of augmentation, which turn a decoded picture into one that contains the crop: resize, affine
// map, border, crop.
#pragma once

#include "base/error.h"
#include "base/random.h"
#include "data/distortion.h"
#include "data/image.h"

namespace dtrain::data {

// Memory for pictures on their way, used again and again.
struct PictureMemory {
  Image first, second;
};

// A picture on its way through the steps, each of which reads it where it is and writes it where it is not. Borrows the
// decoded picture, which stays as it is, and the memory.
class Picture {
 public:
  Picture(const Image& decoded, PictureMemory& memory) : now_(&decoded), memory_(memory) {}

  [[nodiscard]] const Image& image() const { return *now_; }
  [[nodiscard]] Image& next() { return now_ == &memory_.first ? memory_.second : memory_.first; }
  // The next one is written. It may be changed in place.
  Image& advance() {
    Image& made = next();
    now_ = &made;
    return made;
  }

 private:
  const Image* now_;
  PictureMemory& memory_;
};

// Source (x, y) to destination, row by row, and the size of the destination.
struct AffineMap {
  float m[2][3];
  int64_t height, width;
};
struct AffineDraw {
  float shear = 0;
  int angle = 0;  // degrees
  float scale = 1, ratio = 1;
};
// The canvas has the scaled size, within the bounds of `distortion`, and at least a pixel; the ratio stretches inside
// it. The arithmetic is float's, as MXNet's.
AffineMap affine_map(int height, int width, const AffineDraw& draw, const Distortion& distortion);

// Resize, affine step and border, as far as `distortion` has them. Code::kData for what would be too large.
Result<> transform(const Distortion& distortion, Picture& picture, RandomStream& random);

struct Corner {
  int y = 0, x = 0;
};
// Makes the picture one that holds the crop of height x width, and says where. One that is too small is enlarged: first
// to `height` rows, then to `width` columns, both rounding the other edge down. Code::kData for what would be too
// large, and for pictures smaller than crop_size_max.
Result<Corner> find_crop(const Distortion& distortion, int height, int width, Picture& picture, RandomStream& random);

// Leaves of the picture the part of height x width at `corner`.
Image& cut(Picture& picture, Corner corner, int height, int width);

}  // namespace dtrain::data
