// Reads the speeds of the workers of a finished run from its log. It uses the lines "Node[3] Epoch[0] Batch [0-20]
// Speed: 812.33 samples/sec" as any version of MXNet writes them (docs/formats.md, "Log lines"), either in one log of
// all workers or in a run directory with one log per worker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::plan {

// The samples/s of each worker, indexed by rank: the median of its windows without the first one, which includes the
// warm-up and counts one batch too many. `path`: a file, or a directory whose worker-*.log files are read. `workers`:
// the expected number; 0: as many as the largest rank implies. Lines may contain anything. Code::kNotFound if there is
// no log. Code::kData names a worker that has no speed, has a speed that is not a number above 0, or is not in the job.
Result<std::vector<double>> read_speeds(const std::string& path, int64_t workers);

// `path` itself, or, if it is a run directory, its worker-*.log files in order. Code::kNotFound if there are none.
Result<std::vector<std::string>> logs_at(const std::string& path);

}  // namespace dtrain::plan
