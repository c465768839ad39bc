// What dtrain makes of the training flags before anything runs: the options and specifications of its parts, and the
// commands and files by which a job is started.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "dump.h"
#include "job/process/process_environment.h"

namespace dtrain::test {

// The products of a command line, by name. The command line itself is in none of them, nor is the JobSpec: both contain
// every flag, whether something uses it or not. What cannot be made is there as an error, "NAME.error". The run
// directory of the flags is removed first.
Result<Products> products_of(const std::vector<std::string>& arguments, const job::Environment& environment);

}  // namespace dtrain::test
