// The output of --dry-run.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::cmd {

// Begins with what the job needs but this host lacks: `missing`, and what this function itself finds. Then follow the
// JobSpec as far as it is known before the job runs, the table of processes (empty: only this process), the network's
// size, the learning rate of each epoch, the scheme, groups and shares, and the memory for the arrays of each role.
Result<std::string> dry_run_text(job::Flags flags, const std::string& process_table, std::vector<std::string> missing);

}  // namespace dtrain::cmd
