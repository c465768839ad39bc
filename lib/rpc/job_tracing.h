// The scheduler's record of the traces of a job: which steps each trace covers, and which workers have written it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "rpc/job_types.h"
#include "telemetry/tracer.h"

namespace dtrain::rpc {

// Used by one thread.
class JobTracing {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t kStepsMax = 1'000;
  // The minimum time between the starts of two traces. When a signal to a launcher asks for a trace, all processes pass
  // the request on, at slightly different moments.
  static constexpr std::chrono::seconds kPause{5};
  // If a worker has made no step for at least this time and at least five times its usual step time, a trace no longer
  // waits for it.
  static constexpr std::chrono::seconds kIdleMax{120};

  // `tracer` belongs to the scheduler's process. If it was started by --trace, its trace is trace 1 of all processes.
  // If it is null, the scheduler's own work is not traced.
  JobTracing(uint32_t workers, telemetry::Tracer* tracer, Log log);

  // Sets the zero of the scheduler's clock to `now`.
  void begin(Clock::time_point now);
  // The group number of each worker. The workers of a group make the same steps and trace the same ones. Empty: all
  // workers are in one group.
  void set_groups(std::vector<uint32_t> group_of) { group_of_ = std::move(group_of); }
  // To be called for each heartbeat of a worker. `step`: the number of steps that the worker has made. `traced`: the
  // number of the last trace that it has written.
  void hear(const Member& worker, uint64_t step, uint64_t traced, Clock::time_point now);
  // Starts a trace. Its first steps are chosen so that, judging by the workers' speeds, none has begun when the request
  // arrives. Code::kUnavailable, with the reason, if no trace can start now.
  Result<telemetry::TraceRequest> request(uint64_t steps, Clock::time_point now);
  // Ends a trace that waits only for workers that make no steps. To be called regularly.
  void give_up_idle(Clock::time_point now);

  // The newest trace; null if there was none.
  [[nodiscard]] const telemetry::TraceRequest* trace() const { return trace_.steps > 0 ? &trace_ : nullptr; }
  // The number of the last trace that is over: each worker has written it or was given up. All earlier traces are over
  // too. The caller closes the tracer's trace with this number.
  [[nodiscard]] uint64_t traced() const { return traced_; }
  // Whether a trace has ended since the last call. All processes must then be told, so that they write their timelines.
  [[nodiscard]] bool take_news() { return std::exchange(told_traced_, traced_) != traced_; }
  // The timeline of the scheduler's own process while some worker is in a traced step, else null.
  [[nodiscard]] telemetry::Timeline* timeline() const;

 private:
  struct Worker {
    uint64_t step = 0;
    Clock::time_point when;   // time of the first heartbeat with this step
    Clock::time_point heard;  // time of the last heartbeat
    double steps_per_s = 0;
    uint64_t traced = 0;
  };
  [[nodiscard]] uint32_t group_of(uint32_t rank) const { return rank < group_of_.size() ? group_of_[rank] : 0; }
  [[nodiscard]] std::vector<uint64_t> first_steps(Clock::time_point now) const;
  [[nodiscard]] bool is_idle(const Worker& worker, Clock::time_point now) const;
  void end_trace(uint64_t number);

  const uint32_t workers_max_;
  telemetry::Tracer* const tracer_;
  Log log_;
  std::vector<uint32_t> group_of_;
  std::map<uint32_t, Worker> workers_;  // what is known about each worker, indexed by rank
  telemetry::TraceRequest trace_;
  uint64_t traced_ = 0;
  uint64_t told_traced_ = 0;
  std::optional<Clock::time_point> asked_;
};

}  // namespace dtrain::rpc
