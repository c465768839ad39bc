// Packs image files into a record file: what im2rec does.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "data/image_list.h"

namespace dtrain::data {

struct PackOptions {
  bool pass_through = false;      // the files' bytes as they are: colours, edges and encoding cannot be changed then
  int color = 1;                  // 1 colour, 0 gray, -1 as stored
  bool center_crop = false;       // the central square, before resizing
  int resize = 0;                 // shorter edge; 0: as it is
  std::string encoding = ".jpg";  // or ".png"
  int quality = 95;               // JPEG 0 .. 100; PNG: level of compression, above 9 it is 3
  bool pack_label = false;        // all labels of an image; else the first one
  int threads = 1;
};
// Code::kUsage if a value is out of range, or has no effect beside another.
Result<> check(const PackOptions& options);

struct PackReport {
  int64_t packed = 0;
  int64_t skipped = 0;  // unreadable: reported to the log
};
// Writes `out` and the index beside it, records in the order of `entries`. A warning says if labels are left out.
// Code::kData if no image at all could be packed.
Result<PackReport> pack_images(const std::vector<ListEntry>& entries, const std::string& root, const std::string& out,
                               const PackOptions& options, const Log& log);

}  // namespace dtrain::data
