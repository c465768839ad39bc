// Reads from the log of a finished run how fast its workers were. It uses the lines "Node[3] Epoch[0] Batch [0-20]
// Speed: 812.33 samples/sec" as any version of MXNet writes them (docs/formats.md, "Log lines"), either in one log of
// all workers or in a run directory with one log per worker.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::tools {

// Samples/s by rank: the median of a worker's windows without its first one, which has the warm-up in it and counts a
// batch too many. `workers`: that there must be; 0: as many as the largest rank says. Lines may hold anything. `name`
// is for messages. Code::kData names the worker: one without a speed, or whose speed is no number above 0, or that the
// job does not have.
Result<std::vector<double>> speeds_in_log(std::string_view log, const std::string& name, int64_t workers);

// The same of a file, or of all worker-*.log in a directory. Code::kNotFound: there is none.
Result<std::vector<double>> read_speeds(const std::string& path, int64_t workers);

// `path` itself, or all worker-*.log if it is a run directory, in order. Code::kNotFound: there is none.
Result<std::vector<std::string>> logs_at(const std::string& path);

}  // namespace dtrain::tools
