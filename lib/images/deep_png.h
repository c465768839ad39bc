// PNGs of 16 bits per channel, which Image cannot hold: cut and resized with all their bits.
#pragma once

#include <functional>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "images/image.h"

namespace dtrain::images {

struct PngChange {
  Window cut = {};      // the part to keep
  ImageSize size = {};  // of the result; that of `cut`: it is not resized
  Interpolation method = Interpolation::kBilinear;
};
// The PNG that `change`, called with the size of the image in the file, asks for, with the channels and bits of the
// file. level: as in encode_png(). Code::kData for a file that cannot be read.
Result<std::vector<uint8_t>> change_png(Bytes file, const std::function<Result<PngChange>(ImageSize)>& change,
                                        int level);

}  // namespace dtrain::images
