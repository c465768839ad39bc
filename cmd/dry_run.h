// What --dry-run prints.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::cmd {

// The JobSpec as far as it is known before the job runs, the table of processes (empty: this one alone), the network's
// size, the learning rate by epoch, scheme, groups and shares, and the memory that each role's arrays take. Begins with
// what this machine lacks of what the job needs: `missing`, and its own findings.
Result<std::string> dry_run_text(job::Flags flags, const std::string& process_table, std::vector<std::string> missing);

}  // namespace dtrain::cmd
