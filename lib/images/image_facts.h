// What the first bytes of an image's file tell about it, for statistics. Nothing is decoded.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/error.h"

namespace dtrain::images {

struct ImageFacts {
  std::string format;             // "JPEG", "progressive JPEG", "PNG", "raw pixels", ...
  std::string colors;             // of a JPEG: "gray", "color", "CMYK"; else empty
  int64_t height = 0, width = 0;  // of the upright image, as training sees it
  int orientation = 1;            // the value of its EXIF tag, from 1, which is upright, to 8
};

// `file` may be cut behind its header. Code::kData if the header is cut or broken, or the format is unknown.
Result<ImageFacts> image_facts(Bytes file);

}  // namespace dtrain::images
