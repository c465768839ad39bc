// Pictures in record files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/image_source.h"
#include "data/record_index.h"

namespace dtrain::data {

struct RecordSourceOptions {
  std::vector<std::string> paths;  // numbered through in this order
  std::string index;               // for a single path: its index file; empty: beside it, or made (record_index.h)
  int channels = 3;                // to decode to
  KnownOffsets known = {};         // for these no index is read or made
};
// Code::kNotFound if a file is not there; kData if there is no record at all.
Result<std::shared_ptr<const ImageSource>> open_records(const RecordSourceOptions& options, const Log& log);

// The files that a user's name for a data set means: one file, several joined by ';', or all .rec of a directory by
// name.
Result<std::vector<std::string>> list_record_files(const std::string& name);

}  // namespace dtrain::data
