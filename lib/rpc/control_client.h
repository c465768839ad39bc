// A worker's or server's line to the scheduler: joins, beats, agrees with the others, hears that the job is over. The
// protocol: proto/scheduler.proto.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/waits.h"
#include "job/process/coordinator.h"
#include "net/endpoint.h"
#include "rpc/job_types.h"
#include "rpc/security.h"
#include "telemetry/registry.h"
#include "telemetry/tracer.h"

namespace dtrain::rpc {

struct ControlOptions {
  net::Endpoint scheduler;
  Security security;
  Incarnation incarnation = 0;  // of this process: make_incarnation()
  std::chrono::milliseconds start_timeout{300'000};
  std::chrono::milliseconds heartbeat_interval{2'000};
  std::chrono::milliseconds heartbeat_timeout{10'000};
  std::chrono::milliseconds scheduler_grace{30'000};
  telemetry::Tracer* tracer = nullptr;  // hears of traces, and of the scheduler's clock; null: nobody does
  std::chrono::milliseconds barrier_timeout{3'600'000};  // a barrier that nobody's loss ended by then is a bug
  // The heartbeats carry its metrics. Must outlive the client. Null: they carry none.
  telemetry::Registry* registry = nullptr;
};

// Heartbeats have a thread of their own. Of Coordinator's methods one thread is the caller; the others: any thread.
class ControlClient : public job::Coordinator {
 public:
  // Does not connect yet. `waits` must outlive it.
  static std::unique_ptr<ControlClient> create(ControlOptions options, Waits& waits, Log log);

  // Called at most once, by join, if a worker of the job lacks an index. By then everybody has joined, rank() and
  // workers() are known, and the workers may call sum() and all_gather(); start_timeout does not count any more. Null: nothing to do, as
  // for servers.
  using Prepare = std::function<Result<Records>()>;

  // Returns when everybody has joined and is prepared. Tries again while the scheduler cannot be reached, until
  // start_timeout (Code::kStartup). kUsage: other flags, rank taken. kDenied: token, build. kPreempted: after
  // request_stop.
  virtual Result<JoinReply> join(const JoinRequest& request, const Prepare& prepare) = 0;
  Result<JoinReply> join(const JoinRequest& request) { return join(request, nullptr); }

  // Called at most once, on the heartbeat thread, when the job has failed for this process: another one was lost or has
  // failed, or the scheduler went silent (kSchedulerLost, after the grace). All waits here return the same error. Set
  // it before join; it must be short.
  virtual void on_failure(std::function<void(const Error&)> callback) = 0;

  // A signal asked this process to stop. Before the join has returned: it returns kPreempted. After: the workers stop,
  // as may_begin says, and the servers with them.
  virtual void request_stop() = 0;

  // Asks the scheduler for a trace of the next steps of all processes; see rpc::Scheduler::request_trace.
  virtual void request_trace(uint64_t steps) = 0;

  // This process has failed, and must end: all waits here return the error, which is kept unless the job has failed
  // before. Any thread may call it. done() then tells the scheduler why, and with it the other processes.
  virtual void fail_with(const Error& error) = 0;

  // Servers: until all workers are done. kPreempted if the job was asked to stop; the job's error if it failed.
  virtual Result<> wait_finish() = 0;

  // The process ends: nothing or why. Tells the scheduler again and again until it has acknowledged that, for
  // scheduler_grace at most, and for 2 s once the scheduler has said that the job is over: it may be gone. Then ends the
  // heartbeats.
  virtual void done(const Result<>& outcome) = 0;

  // The job's error, if there is one.
  [[nodiscard]] virtual Result<> state() const = 0;
};

}  // namespace dtrain::rpc
