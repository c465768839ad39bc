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
  int64_t skipped = 0;  // could not be read; reported to the log
};
struct PackRun {
  const std::atomic<bool>* stop = nullptr;  // true: end soon
  // Keep the journal, so that a later run with the same options finds that `out` is complete, until
  // PackedRecords::forget().
  bool keeps_journal = false;
  decltype(ImageDirectory::read) read = nullptr;  // null: the files are below the root
  data::FileCalls calls = data::FileCalls::of_system();
};
// Writes `out` and the index beside it, with the records in the order of `entries`, and makes their directory if it
// does not exist. Goes on where an earlier run with the same entries and options was ended; the files are then those of
// one run (packed_records.h).
//
// Each image that cannot be packed is reported to `log` with its reason; warns also if labels are left out. Code::kData
// if no image could be packed, or the files cannot be written; kPreempted if `run.stop` became true, and kDevice if the
// disk or file server of the images fails (image_packer.h), both with what is done on disk.
Result<PackReport> pack_images(const std::vector<data::ListEntry>& entries, const std::string& root,
                               const std::string& out, const PackOptions& options, const Log& log,
                               const PackRun& run = {});

}  // namespace dtrain::dataset
