// Cuts and resizes PNGs of 16 bits per channel, which Image cannot hold, at full precision.
#pragma once

#include <functional>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "images/image.h"

namespace dtrain::images {

struct PngChange {
  Window cut = {};      // the part to keep
  ImageSize size = {};  // size of the result; if it equals that of `cut`, nothing is resized
  Interpolation method = Interpolation::kBilinear;
};
// Applies a change to a PNG and keeps the channels and the bit depth of the file. `change` is called with the size of
// the image in the file. level: as in encode_png(). Code::kData for a file that cannot be read.
Result<std::vector<uint8_t>> change_png(Bytes file, const std::function<Result<PngChange>(ImageSize)>& change,
                                        int level);

}  // namespace dtrain::images
