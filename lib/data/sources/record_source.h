// Images in record files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/records/label_list.h"
#include "data/records/record_index.h"
#include "data/sources/image_source.h"

namespace dtrain::data {

struct RecordSourceOptions {
  std::vector<std::string> paths;  // their records are numbered in this order
  // Index file, if there is a single path; empty: the index next to it, or a new one (record_index.h).
  std::string index;
  int channels = 3;         // number of channels of the decoded images
  size_t label_width = 1;   // number of labels of every record; 0: labels are not read, and their number may vary
  KnownOffsets known = {};  // offsets of some of these files; for them no index is read or created
  // If not null, this list labels the records instead of their own labels; it must have label_width labels for each id.
  // Reading a record that it lacks is Code::kUsage.
  std::shared_ptr<const LabelList> labels = nullptr;
  FileCalls calls = FileCalls::of_system();
};
// Opens the record files. Code::kNotFound if a file does not exist; kData if there are no records.
Result<std::shared_ptr<const ImageSource>> open_records(const RecordSourceOptions& options, const Log& log);

// The files that a user's name for a data set refers to: one file, several as for split_paths(), or all .rec files of a
// directory, in order of name.
Result<std::vector<std::string>> list_record_files(const std::string& name);

}  // namespace dtrain::data
