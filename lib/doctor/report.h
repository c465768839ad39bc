// The output of `dtrain doctor`.
#pragma once

#include <string>
#include <vector>

#include "doctor/checks.h"

namespace dtrain::doctor {

// A table with one line for each row and one for its remedy, then what was skipped, the matrices of --perf, and finally
// the verdict: "doctor: 14 checks, 1 warning, 0 failed, 6 skipped". Lines are wrapped at `columns`; 0: they are not
// wrapped.
std::string table(const Examined& examined, const std::vector<Row>& rows, size_t columns);

// All findings, as one line.
std::string json_line(const Examined& examined, const std::vector<Row>& rows);

}  // namespace dtrain::doctor
