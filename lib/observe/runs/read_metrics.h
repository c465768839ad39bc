// Reads metrics.jsonl into a Run (docs/formats.md, "Run directory").
#pragma once

#include <string>

#include "observe/runs/run.h"

namespace dtrain::observe {

// `run.settings` must have been read before, because it includes the number of steps in an epoch. Lines that are not
// JSON objects are counted in `run.problems`. Code::kNotFound: there is no such file.
Result<> read_metrics(const std::string& path, Run& run);

}  // namespace dtrain::observe
