#include "rpc/job_tracing.h"

#include <algorithm>
#include <cmath>

namespace dtrain::rpc {

namespace {

// For the word to reach all workers, on a slow network or a busy host.
constexpr double kDeliveryS = 0.5;
constexpr uint64_t kSpareSteps = 2;

double seconds(JobTracing::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void JobTracing::hear(const Member& worker, uint64_t step, uint64_t traced, Clock::time_point now) {
  const auto [at, is_new] = workers_.try_emplace(worker);
  Worker& known = at->second;
  // Beats may come so close together that no step lies between them; they say nothing about speed.
  if (is_new || step > known.step) {
    if (!is_new && now > known.when)
      known.steps_per_s = static_cast<double>(step - known.step) / seconds(now - known.when);
    known.step = step;
    known.when = now;
  }
  known.traced = std::max(known.traced, traced);
  step_ = std::max(step_, step);
}

Result<telemetry::TraceRequest> JobTracing::request(uint64_t steps, Clock::time_point now) {
  if (workers_.empty()) return fail(Code::kUnavailable, "no worker trains yet");
  if (traced(workers_.size()) < trace_.number) {
    if (trace_.steps == 0) return fail(Code::kUnavailable, "the trace of --trace is not finished yet");
    return fail(Code::kUnavailable, "trace {}, of {}, is not finished yet", trace_.number, steps_text(trace_));
  }
  if (asked_ && now - *asked_ < kPause) {
    return fail(Code::kUnavailable, "the last trace was asked for less than {} s ago", kPause.count());
  }
  asked_ = now;
  uint64_t first = 0;
  for (const auto& [member, worker] : workers_) {
    const double since = seconds(now - worker.when) + kDeliveryS;
    first = std::max(first, worker.step + static_cast<uint64_t>(std::ceil(since * worker.steps_per_s)));
  }
  trace_ = {.number = trace_.number + 1,
            .first_step = first + kSpareSteps,
            .steps = std::min(steps == 0 ? telemetry::Tracer::kUsualSteps : steps, kStepsMax)};
  return trace_;
}

uint64_t JobTracing::traced(size_t workers) const {
  if (workers_.size() < workers || workers_.empty()) return 0;
  return std::ranges::min_element(workers_, {}, [](const auto& w) { return w.second.traced; })->second.traced;
}

}  // namespace dtrain::rpc
