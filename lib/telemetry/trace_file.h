// Traces as files in Chrome's trace event format, which chrome://tracing and https://ui.perfetto.dev show:
// RUN_DIR/trace-ROLE-RANK.json of each process, and RUN_DIR/trace.json of all of them. docs/formats.md, "Trace".
//
// Each event is a line of its own, so that files can be put together without reading them whole.
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
  std::string role;  // "worker", "server" or "scheduler"
  uint32_t rank = 0;
  TraceRequest request;
  std::optional<ClockOffset::Estimate> clock;  // nullopt: unknown; times are then those of its own clock
};

// "trace-worker-3.json".
std::string trace_file_name(const std::string& role, uint32_t rank);
inline constexpr const char* kWholeTraceFile = "trace.json";
bool is_trace_file(std::string_view name);  // of a process, or of all
// Removes the files of traces that an earlier run has left there.
void remove_traces(const std::string& directory);

// Replaces the file. `dropped`: the number of events that the timeline left out.
Result<> write_trace(const std::string& path, const TraceOrigin& origin, const std::vector<TimelineLane>& lanes,
                     uint64_t dropped);

struct MergedTrace {
  std::string path;
  uint64_t number = 0;  // of the trace
  size_t files = 0;     // put together
  uint64_t events = 0;
  std::vector<std::string> left_out;  // "trace-worker-1.json: it is cut short"
};
// Puts the files of the newest trace in the directories together, as trace.json in the first directory. Files of older
// traces are left out, and files that are not whole. Code::kNotFound: there is no trace.
Result<MergedTrace> merge_traces(const std::vector<std::string>& directories);

}  // namespace dtrain::telemetry
