// The scheduler of a job: brings the processes together, hears their hearts, lets them agree, and ends the job.
// Decisions are sync/membership.h; this carries them out over gRPC. The protocol: proto/scheduler.proto.
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

// Everybody has joined.
struct Joined {
  std::vector<Node> nodes;  // workers by rank, then servers by rank
  uint64_t records_train = 0;
  uint64_t records_val = 0;
};

// And what follows from it.
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
  // Completes the job (placement, shares, batches an epoch) before the answers go out. Called once, on the scheduler's
  // thread. An error ends the start for all.
  std::function<Result<CompleteJob>(const Joined&)> finish_job;
};

struct MemberPulse {
  Member member;
  std::string host;  // its name for itself
  Pulse pulse;
  std::chrono::steady_clock::time_point heard;
  bool is_lost = false;  // it ended without a word
};

// Any thread may call it.
class Scheduler {
 public:
  // Listens and returns. Code::kStartup as rpc::listen.
  static Result<std::unique_ptr<Scheduler>> start(SchedulerOptions options, Log log);
  virtual ~Scheduler() = default;

  [[nodiscard]] virtual uint16_t port() const = 0;
  // nullopt: the job has not ended within `limit`. Else how it ended: the first error, or success.
  virtual std::optional<Result<>> wait(std::chrono::milliseconds limit) = 0;
  // A signal asked this process to stop: the job stops.
  virtual void request_stop() = 0;
  using TraceAnswer = std::function<void(const Result<telemetry::TraceRequest>&)>;
  // Asks for a trace of `steps` steps of all processes, which write it into their run directories (telemetry/tracer.h);
  // 0: as many as usual. Refused before the start, while a trace is in progress, and for some seconds after one began.
  // `answer`, which may be null, is called by the scheduler's thread with the trace, or with why there is none; not at
  // all after the end.
  virtual void request_trace(uint64_t steps, TraceAnswer answer) = 0;
  // What each process reported last: servers and workers by rank; empty before the start.
  [[nodiscard]] virtual std::vector<MemberPulse> pulses() const = 0;
};

}  // namespace dtrain::rpc
