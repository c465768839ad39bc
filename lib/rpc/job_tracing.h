// The traces of a job, as the scheduler keeps them: which steps the next one is of, and who has written it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "base/error.h"
#include "rpc/job_types.h"
#include "telemetry/tracer.h"

namespace dtrain::rpc {

// Used by one thread.
class JobTracing {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t kStepsMax = 1'000;
  // Between the beginnings of two traces. A signal to a launcher reaches all processes, which all ask for a trace, but
  // not at the same moment.
  static constexpr std::chrono::seconds kPause{5};

  // `number`: of the trace that all processes make without being told (--trace); 0: none.
  explicit JobTracing(uint64_t number = 0) { trace_.number = number; }

  // A worker's heartbeat: the steps that it has made, and the number of the last trace that it has written.
  void hear(const Member& worker, uint64_t step, uint64_t traced, Clock::time_point now);
  // The new trace, of steps that no worker has begun when it hears of it, as far as their speed tells.
  // Code::kUnavailable says why there is none now.
  Result<telemetry::TraceRequest> request(uint64_t steps, Clock::time_point now);

  // The newest trace, if the processes have to be told of it.
  [[nodiscard]] const telemetry::TraceRequest* trace() const { return trace_.steps > 0 ? &trace_ : nullptr; }
  // All of `workers` workers have written the trace with this number and those before it.
  [[nodiscard]] uint64_t traced(size_t workers) const;
  // The largest number of steps that a worker has made.
  [[nodiscard]] uint64_t step() const { return step_; }

 private:
  struct Worker {
    uint64_t step = 0;
    Clock::time_point when;
    double steps_per_s = 0;
    uint64_t traced = 0;
  };
  std::map<Member, Worker> workers_;
  uint64_t step_ = 0;
  telemetry::TraceRequest trace_;
  std::optional<Clock::time_point> asked_;
};

}  // namespace dtrain::rpc
