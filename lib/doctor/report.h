// The output of `dtrain doctor`.
#pragma once

#include <string>
#include <vector>

#include "doctor/checks.h"

namespace dtrain::doctor {

// Returns the report: a table with one line for each row, followed by a line for its remedy if it has one; then what
// was skipped, the matrices of --perf, and finally the summary "doctor: 14 checks, 1 warning, 0 failed, 6 skipped".
// Lines are wrapped at `columns` columns; 0: not wrapped.
std::string table(const Examined& examined, const std::vector<Row>& rows, size_t columns);

// Returns all findings, as one line of JSON.
std::string json_line(const Examined& examined, const std::vector<Row>& rows);

}  // namespace dtrain::doctor
