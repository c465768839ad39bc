// What --dry-run prints.
#pragma once

#include <string>

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::cmd {

// The JobSpec as far as it is known before the job runs, the table of processes (empty: this one alone), the network's
// size, the learning rate by epoch, scheme, groups and shares, and the memory that each role's arrays take.
Result<std::string> dry_run_text(job::Flags flags, const std::string& process_table);

}  // namespace dtrain::cmd
