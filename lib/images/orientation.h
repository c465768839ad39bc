// How a camera held an image: the orientation tag of EXIF, in a JPEG or a PNG. An image is turned as OpenCV's
// imdecode turns it.
#pragma once

#include "base/bytes.h"
#include "images/image.h"

namespace dtrain::images {

// The operations that turn a stored image, in this order. Each is optional.
struct Orientation {
  bool transposed = false;
  bool mirrored = false;     // the columns in reverse order
  bool upside_down = false;  // the rows in reverse order

  [[nodiscard]] bool turns() const { return transposed || mirrored || upside_down; }
  [[nodiscard]] ImageSize turned(const ImageSize& stored) const {
    return transposed ? ImageSize{stored.width, stored.height} : stored;
  }
  // Converts a part between the coordinates of the stored and of the turned image. `size` is that of the turned image.
  [[nodiscard]] Window stored_part(const Window& turned, const ImageSize& size) const;
  [[nodiscard]] Window turned_part(const Window& stored, const ImageSize& size) const;
  // Turns the pixels.
  void turn(const Image& stored, Image& out) const;

  bool operator==(const Orientation&) const = default;
};

// The orientation for the value of the tag, 1 to 8. Any other value turns nothing.
Orientation orientation_of_tag(int value);

// The tag in the first directory of an EXIF block, which begins with the byte order: 1 (upright) to 8. It is 1 if the
// block is damaged before or at the tag, or has none.
int exif_orientation_tag(Bytes exif);

// The tag of the EXIF block in the segments of a JPEG before its pixels, or in the chunks of a PNG. It is 1 if there is
// none, or if the file has another format.
int read_orientation_tag(Bytes file);
inline Orientation read_orientation(Bytes file) {
  return orientation_of_tag(read_orientation_tag(file));
}

}  // namespace dtrain::images
