// Reads training logs into a Run: curves, arguments, warnings and errors.
#pragma once

#include <string>
#include <vector>

#include "observe/runs/run.h"

namespace dtrain::observe {

// `paths`: the logs of one run, read one after the other. Steps, samples and seconds of the curves are derived from the
// lines as far as possible. The number of batches in an epoch comes from the settings, from a line about it or from the
// largest batch number; the time comes from the clock of the lines or from "Time cost". A metric that `run` already has
// is not changed. Returns the number of lines about the training.
Result<uint64_t> read_logs(const std::vector<std::string>& paths, Run& run);

}  // namespace dtrain::observe
