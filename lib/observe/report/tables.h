// The tables of a report, as HTML.
#pragma once

#include <span>
#include <string>

#include "observe/runs/run.h"

namespace dtrain::observe {

// What was run and how it ended: one column per run.
std::string result_table(std::span<const Run> runs);
// The settings in which the runs differ; empty with fewer than two runs.
std::string difference_table(std::span<const Run> runs);
// Staleness of the servers' updates; empty if no run has servers with such values.
std::string staleness_table(std::span<const Run> runs);
// What slowed a run down, in sentences.
std::string slow_section(std::span<const Run> runs);
std::string environment_table(std::span<const Run> runs);
// Warnings and errors from the logs, and problems in reading the runs.
std::string message_section(std::span<const Run> runs);

}  // namespace dtrain::observe
