// Record files without an index, in a job: worker 0 indexes them, and the others wait for it. The job has not begun,
// and its start timeout does not run: proto/scheduler.proto, `prepare`.
#pragma once

#include <chrono>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/step_faults.h"
#include "base/waits.h"
#include "data/record_index.h"
#include "kvstore/coordinator.h"

namespace dtrain::role {

struct Indexing {
  kvstore::Coordinator& coordinator;
  Waits& waits;
  const Log& log;
  Pacer& pacer;  // makes a scan last longer, for tests
  // How often worker 0 tells the others how far it is.
  std::chrono::milliseconds report_interval{1'000};
};

// All workers call it, each with the record files of its own data set. For every file that lacks its index somewhere,
// worker 0 reads or makes it. A worker that finds the index beside its own file from then on uses that; the others are
// sent the offsets, and check that their file is the one that worker 0 has. Gives what this worker was sent or has
// made. Code::kUsage: the workers have different numbers of files. kData: another file, by its path and worker.
Result<data::KnownOffsets> share_indexes(const std::vector<data::IndexedFile>& files, const Indexing& indexing);

}  // namespace dtrain::role
