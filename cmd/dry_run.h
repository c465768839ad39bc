// The output of --dry-run.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::cmd {

// Returns the text of --dry-run. It begins with what the job needs but this host lacks: `missing`, and what this
// function finds itself. Then follow: the JobSpec, as far as it is known before the job runs; the table of processes,
// if `process_table` is not empty (a job of this process only has none); the size of the network; the learning rates;
// the scheme, the groups and the shares; and the memory for the arrays of each role.
Result<std::string> dry_run_text(job::Flags flags, const std::string& process_table, std::vector<std::string> missing);

}  // namespace dtrain::cmd
