// Reads the speeds of the workers of a finished run from its log: from the lines "Node[3] Epoch[0] Batch [0-20] Speed:
// 812.33 samples/sec", which any version of MXNet writes (docs/formats.md, "Log lines"). There may be one log of all
// workers, or a run directory with one log per worker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::plan {

// Returns the samples/s of each worker, indexed by rank: the median of its log windows without the first one, which
// includes the warm-up and counts one batch too many. `path`: a log, or a directory, whose worker-*.log files are read.
// `workers`: the expected number; 0: it follows from the largest rank. Lines may contain anything. Code::kNotFound if
// there is no log. Code::kData if a worker has no speed, has a speed that is not a number above 0, or is not in the
// job; the message names the worker.
Result<std::vector<double>> read_speeds(const std::string& path, int64_t workers);

// Returns `path` itself, or its worker-*.log files in order if it is a run directory. Code::kNotFound if there are
// none.
Result<std::vector<std::string>> logs_at(const std::string& path);

}  // namespace dtrain::plan
