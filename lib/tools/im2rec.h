// dtrain im2rec: packs image files into record files. It accepts the command lines of both of MXNet's tools:
//   im2rec PREFIX ROOT [options]            im2rec_prefix
//   im2rec LIST ROOT OUT [key=value ...]    im2rec_list, with apply_im2rec_key for each key
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "data/pack.h"

namespace dtrain::tools {

struct Im2recOptions {
  bool list = false;       // only make the list
  bool recursive = false;  // one label per directory below ROOT; else only the images of ROOT itself, with label 0
  bool shuffle = true;     // shuffle the list in im2rec.py's order
  std::vector<std::string> extensions = {".jpeg", ".jpg", ".png"};
  data::PackOptions pack;
};

// Packs every list whose path begins with `prefix` and ends in .lst: X.lst becomes X.rec and X.idx. If there is no
// list, or options.list is set, first lists `root` into PREFIX.lst. Code::kNotFound if there is no image; kData if a
// list gives no record.
Result<> im2rec_prefix(const std::string& prefix, const std::string& root, const Im2recOptions& options,
                       const Log& log);

// Packs one list into `out` and the index beside it.
Result<> im2rec_list(const std::string& list, const std::string& root, const std::string& out,
                     const Im2recOptions& options, const Log& log);

// Applies an argument such as "resize=256". The keys are color, resize, center_crop, quality, encoding, unchanged,
// pack_label and num_thread. Code::kUsage for other keys, and for values that are not numbers.
Result<> apply_im2rec_key(std::string_view key_value, Im2recOptions& options);

}  // namespace dtrain::tools
