#include "role/process/tracing.h"

#include <chrono>

#include "telemetry/trace_file.h"

namespace dtrain::role {

uint64_t steps_to_trace(const job::Flags& flags) {
  return static_cast<uint64_t>(flags.launch.trace_steps);
}

void begin_own_trace(Process& process) {
  if (steps_to_trace(process.flags) > 0) telemetry::remove_traces(process.run_dir.path());
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const int64_t now_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  process.tracer->clock().add(now_us, 0, now_us);
}

Result<std::string> trace_next_steps(Process& process) {
  const uint64_t asked = steps_to_trace(process.flags), steps = asked > 0 ? asked : telemetry::Tracer::kUsualSteps;
  DT_TRY_VOID(process.tracer->request_next(steps));
  return fmt::format("the next {} steps are traced", steps);
}

void finish_own_trace(Process& process) {
  process.tracer->finish();
  if (process.tracer->written() == 0) return;
  const Result<telemetry::MergedTrace> merged = telemetry::merge_traces({process.run_dir.path()});
  if (!merged) process.log.warn("{}", merged.error().line());
}

}  // namespace dtrain::role
