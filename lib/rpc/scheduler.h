// The scheduler of a job: lets the processes join, receives their heartbeats, runs their barriers, and ends the job.
// sync/membership.h makes the decisions, and this carries them out over gRPC. The protocol is in proto/scheduler.proto.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "net/endpoint.h"
#include "rpc/job_types.h"
#include "rpc/security.h"
#include "telemetry/tracer.h"

namespace dtrain::rpc {

// The job when all processes have joined.
struct Joined {
  std::vector<Node> nodes;  // workers by rank, then servers by rank
  uint64_t records_train = 0;
  uint64_t records_val = 0;
};

// What the role that owns the scheduler derives from it.
struct CompleteJob {
  std::string text;
  std::vector<uint32_t> stop_set_of = {};  // sync::membership::Ready
  std::vector<uint32_t> group_of = {};     // by worker: those of one group make the same steps; empty: all are in one
};

struct SchedulerOptions {
  net::Listen listen;
  Security security;
  sync::membership::Settings membership;
  telemetry::Tracer* tracer = nullptr;  // of this process; must outlive the scheduler. Null: its own work is not traced
  // Completes the job (placement, shares, batches of an epoch) before the joins are answered. Called once, by the
  // scheduler's thread. An error ends the start of all processes.
  std::function<Result<CompleteJob>(const Joined&)> finish_job;
};

struct MemberPulse {
  Member member;
  std::string host;  // its own host name
  Pulse pulse;
  std::chrono::steady_clock::time_point heard;
  bool is_lost = false;  // it ended without saying why
};

// Any thread may call it.
class Scheduler {
 public:
  // Listens and returns. Code::kStartup as rpc::listen.
  static Result<std::unique_ptr<Scheduler>> start(SchedulerOptions options, Log log);
  virtual ~Scheduler() = default;

  [[nodiscard]] virtual uint16_t port() const = 0;
  // Waits for the end of the job, for at most `limit`; nullopt if it has not ended by then. Otherwise the first error,
  // or success.
  virtual std::optional<Result<>> wait(std::chrono::milliseconds limit) = 0;
  // Call it when a signal asks this process to stop: the job stops.
  virtual void request_stop() = 0;
  using TraceAnswer = std::function<void(const Result<telemetry::TraceRequest>&)>;
  // Asks for a trace of `steps` steps of all processes, which write it into their run directories (telemetry/tracer.h);
  // 0: as many as usual. Refused before the start, while a trace is in progress, and for some seconds after one began.
  // `answer`, which may be null, is called by the scheduler's thread with the trace, or with why there is none; not at
  // all after the end.
  virtual void request_trace(uint64_t steps, TraceAnswer answer) = 0;
  // The last report of each process: servers and workers, by rank; empty before the start.
  [[nodiscard]] virtual std::vector<MemberPulse> pulses() const = 0;
};

}  // namespace dtrain::rpc
