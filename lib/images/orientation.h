// The orientation in which a camera held an image: EXIF's orientation tag in a JPEG or a PNG. Images are turned in the
// same way as by OpenCV's imdecode.
#pragma once

#include "base/bytes.h"
#include "images/image.h"

namespace dtrain::images {

// The operations that turn a stored image, in the order in which they are applied. Each is optional.
struct Orientation {
  bool transposed = false;
  bool mirrored = false;     // whether to reverse the order of the columns
  bool upside_down = false;  // whether to reverse the order of the rows

  [[nodiscard]] bool turns() const { return transposed || mirrored || upside_down; }
  [[nodiscard]] ImageSize turned(const ImageSize& stored) const {
    return transposed ? ImageSize{stored.width, stored.height} : stored;
  }
  // Convert a part between the coordinates of the stored and the turned image. `size` is the size of the turned image.
  [[nodiscard]] Window stored_part(const Window& turned, const ImageSize& size) const;
  [[nodiscard]] Window turned_part(const Window& stored, const ImageSize& size) const;
  // Turns the pixels.
  void turn(const Image& stored, Image& out) const;

  bool operator==(const Orientation&) const = default;
};

// The orientation for the value of the tag, 1 to 8. Any other value turns nothing.
Orientation orientation_of_tag(int value);

// Reads the tag in the first directory of an EXIF block, which begins with the byte order: 1 (upright) to 8. The result
// is 1 if the block is damaged before or at the tag, or has no tag.
int exif_orientation_tag(Bytes exif);

// Reads the tag of the EXIF block in the segments of a JPEG before its pixels, or in the chunks of a PNG. The result is
// 1 if there is no tag, or if the file has another format.
int read_orientation_tag(Bytes file);
inline Orientation read_orientation(Bytes file) {
  return orientation_of_tag(read_orientation_tag(file));
}

}  // namespace dtrain::images
