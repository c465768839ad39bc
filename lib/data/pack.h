// Packs image files into a record file: what im2rec does.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "data/image_list.h"

namespace dtrain::data {

struct PackOptions {
  bool pass_through = false;      // keep the files' bytes; color, size and encoding cannot be changed then
  int color = 1;                  // 1 color, 0 gray, -1 as stored
  bool center_crop = false;       // crop the central square, before resizing
  int resize = 0;                 // the shorter edge; 0: do not resize
  std::string encoding = ".jpg";  // or ".png"
  int quality = 95;               // JPEG: 0 .. 100; PNG: compression level, above 9 means 3
  bool pack_label = false;        // store all labels of an image; else only the first
  int threads = 1;
};
// Code::kUsage if a value is out of range, or has no effect together with another.
Result<> check(const PackOptions& options);

struct PackReport {
  int64_t packed = 0;
  int64_t skipped = 0;  // could not be read; reported to the log
};
// Writes `out` and the index beside it, with the records in the order of `entries`. Warns if labels are left out.
// Code::kData if no image could be packed.
Result<PackReport> pack_images(const std::vector<ListEntry>& entries, const std::string& root, const std::string& out,
                               const PackOptions& options, const Log& log);

}  // namespace dtrain::data
