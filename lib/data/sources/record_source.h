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
  std::string index;        // of a single path: its index file; empty: the one beside it, or made (record_index.h)
  int channels = 3;         // of the decoded images
  size_t label_width = 1;   // labels of every record; 0: they are not read, and may be any number
  KnownOffsets known = {};  // of these files no index is read or made
  // If not null, records are labeled by this list, which must have label_width labels for each id, and not by their
  // own labels. Reading a record that it lacks is Code::kUsage.
  std::shared_ptr<const LabelList> labels = nullptr;
  FileCalls calls = FileCalls::of_system();
};
// Code::kNotFound if a file does not exist; kData if there are no records.
Result<std::shared_ptr<const ImageSource>> open_records(const RecordSourceOptions& options, const Log& log);

// The files that a user's name for a data set stands for: one file, several as for split_paths(), or all .rec files of
// a directory, by name.
Result<std::vector<std::string>> list_record_files(const std::string& name);

}  // namespace dtrain::data
