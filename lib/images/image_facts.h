// Facts about an image from the first bytes of its file, for statistics. Nothing is decoded.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/error.h"

namespace dtrain::images {

struct ImageFacts {
  std::string format;             // format of the image: "JPEG", "progressive JPEG", "PNG", "raw pixels", ...
  std::string colors;             // for a JPEG: "gray", "color", "CMYK"; otherwise empty
  int64_t height = 0, width = 0;  // size of the upright image, as training sees it
  int orientation = 1;            // the value of the image's EXIF orientation tag, from 1 (upright) to 8
};

// `file` may be truncated after its header. Code::kData if the header is truncated or broken, or the format is unknown.
Result<ImageFacts> image_facts(Bytes file);

}  // namespace dtrain::images
