// Traces as files in Chrome's trace event format, which chrome://tracing and https://ui.perfetto.dev display:
// RUN_DIR/trace-ROLE-RANK.json for each process, and RUN_DIR/trace.json for all of them. See docs/formats.md, "Trace".
//
// Each event is on a separate line, so that files can be merged without reading them completely.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "telemetry/clock_offset.h"
#include "telemetry/timeline.h"
#include "telemetry/tracer.h"

namespace dtrain::telemetry {

struct TraceOrigin {
  std::string role;  // role of the process: "worker", "server" or "scheduler"
  uint32_t rank = 0;
  TraceRequest request;
  // Offset of the process's clock; nullopt: unknown, and times are those of the process's own clock.
  std::optional<ClockOffset::Estimate> clock;
};

// The file of a process, such as "trace-worker-3.json".
std::string trace_file_name(const std::string& role, uint32_t rank);
inline constexpr const char* kWholeTraceFile = "trace.json";
bool is_trace_file(std::string_view name);  // true for the file of one process, and for the merged file
// Removes the traces that an earlier run has left in the directory.
void remove_traces(const std::string& directory);

// Writes the file, replacing an earlier one. `dropped`: the number of events that the timeline dropped.
Result<> write_trace(const std::string& path, const TraceOrigin& origin, const std::vector<TimelineRow>& rows,
                     uint64_t dropped);

struct MergedTrace {
  std::string path;
  uint64_t number = 0;  // number of the trace
  size_t files = 0;     // number of merged files
  uint64_t events = 0;
  // The files that were left out, with the reasons: "trace-worker-1.json: the file is cut short".
  std::vector<std::string> left_out;
};
// Merges the files of the latest trace in the directories into trace.json in the first directory. Leaves out files of
// older traces, and incomplete files. Code::kNotFound: there is no trace.
Result<MergedTrace> merge_traces(const std::vector<std::string>& directories);

}  // namespace dtrain::telemetry
