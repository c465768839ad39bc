// A run that is continued with another number of workers, other shares of the records or another batch size.
#pragma once

#include <string>

#include "base/log.h"
#include "train/start.h"

namespace dtrain::train {

// Converts a start of the workers of a job, `before` (the text of a JobSpec), to other workers, those of the job `now`.
// `epoch`: the epochs of one of them. Does nothing if both divide the records alike, or if a text is not a complete
// JobSpec.
//
// The schedule continues at the same fraction of the epochs, in samples of the new job's epochs. Within an epoch of
// workers with the same weights, the records that are left are divided equally among the present workers, so that each
// record of the epoch is read once. If that is not possible, because the workers may have read their shares to
// different places or more than once or because the number of records has changed, they continue in their own shares
// after the same fraction of the epoch, and a warning says so.
void adapt_to_workers(Start& start, const std::string& before, const std::string& now, const job::EpochRule& epoch,
                      const Log& log);

// Whether the workers of both jobs (the texts of their JobSpecs) divide the records alike. False if one of the texts is
// not a complete JobSpec.
bool divide_alike(const std::string& a, const std::string& b);

}  // namespace dtrain::train
