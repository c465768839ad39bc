// Makes an index for each record file that has none, before the job starts: worker 0 makes the index and the other
// workers wait for it. Meanwhile the job's start timeout is paused (proto/scheduler.proto, `prepare`).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/step_faults.h"
#include "base/waits.h"
#include "data/records/record_index.h"
#include "job/process/coordinator.h"

namespace dtrain::role {

struct Indexing {
  job::Coordinator& coordinator;
  Waits& waits;
  const Log& log;
  Pacer& pacer;  // makes a scan last longer (--inject, for tests)
  // Where worker 0 stores the offsets of a file if it cannot write an index next to it; empty: they are not stored.
  std::string directory = {};
  // How often worker 0 reports its progress to the other workers.
  std::chrono::milliseconds report_interval{1'000};
};

// All workers call it, each with the record files of its own data set. For every file whose index is missing on some
// worker, worker 0 reads or makes the index. A worker that then finds the index next to its own file uses that one.
// Worker 0 sends the offsets to the others, which check that their file is the same as worker 0's. Returns the offsets
// that this worker has received or made. Code::kUsage if the workers have different numbers of files. kData if a worker
// has a different file; the error names the path and the worker.
Result<data::KnownOffsets> share_indexes(const std::vector<data::IndexedFile>& files, const Indexing& indexing);

// Like share_indexes, for a process that trains alone: makes the missing indexes, or finds them in `directory`.
Result<data::KnownOffsets> make_indexes(const std::vector<data::IndexedFile>& files, const std::string& directory,
                                        const Log& log);

}  // namespace dtrain::role
