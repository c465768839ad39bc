// Packs image files into a record file, as `dtrain im2rec` does.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/records/image_list.h"
#include "dataset/packing/image_packer.h"
#include "dataset/packing/packed_records.h"

namespace dtrain::dataset {

struct PackReport {
  int64_t packed = 0;
  int64_t skipped = 0;  // images that could not be packed; they are reported to the log
};
struct PackRun {
  const std::atomic<bool>* stop = nullptr;  // when it becomes true, the packing stops soon
  // Keep the journal until PackedRecords::forget(), so that a later run with the same options sees that `out` is
  // complete.
  bool keeps_journal = false;
  // How the image of an entry is read, as in ImageDirectory; null: the files are below the root.
  decltype(ImageDirectory::read) read = nullptr;
  data::FileCalls calls = data::FileCalls::of_system();
};
// Writes the record file `out` and the index next to it, with the records in the order of `entries`. Creates their
// directory if it does not exist. Continues where an earlier run with the same entries and options was interrupted; the
// resulting files are the same as those of an uninterrupted run (packed_records.h).
//
// Logs each image that cannot be packed, with the reason, and a warning if labels are left out. Code::kData if no image
// could be packed, or if the files cannot be written; kPreempted if `run.stop` became true; kDevice if the disk or file
// server with the images fails (image_packer.h). In the last two cases, the finished part is on disk.
Result<PackReport> pack_images(const std::vector<data::ListEntry>& entries, const std::string& root,
                               const std::string& out, const PackOptions& options, const Log& log,
                               const PackRun& run = {});

}  // namespace dtrain::dataset
