// Packs image files into a record file: what im2rec does.
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
  int64_t skipped = 0;  // images that could not be read; reported to the log
};
struct PackRun {
  const std::atomic<bool>* stop = nullptr;  // when it becomes true, packing ends soon
  // Keep the journal until PackedRecords::forget(), so that a later run with the same options sees that `out` is
  // complete.
  bool keeps_journal = false;
  decltype(ImageDirectory::read) read = nullptr;  // null: the files are below the root
  data::FileCalls calls = data::FileCalls::of_system();
};
// Writes `out` and the index next to it, with the records in the order of `entries`, and creates their directory if it
// does not exist. Continues where an earlier run with the same entries and options was interrupted; the result is the
// same as that of a single run (packed_records.h).
//
// Each image that cannot be packed is reported to `log` with the reason; a warning also reports labels that are left
// out. Code::kData if no image could be packed, or the files cannot be written; kPreempted if `run.stop` became true,
// and kDevice if the disk or file server of the images fails (image_packer.h). In the last two cases the finished part
// is on disk.
Result<PackReport> pack_images(const std::vector<data::ListEntry>& entries, const std::string& root,
                               const std::string& out, const PackOptions& options, const Log& log,
                               const PackRun& run = {});

}  // namespace dtrain::dataset
