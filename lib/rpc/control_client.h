// The client of the scheduler in a worker or server: joins the job, sends heartbeats, takes part in barriers and sums,
// and learns when the job is over. The protocol is in proto/scheduler.proto.
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
  telemetry::Tracer* tracer = nullptr;                   // is told of traces and of the scheduler's clock; may be null
  std::chrono::milliseconds barrier_timeout{3'600'000};  // no barrier takes so long: a lost process ends it earlier
  // Heartbeats carry the metrics of this registry, which must outlive the client. Null: they carry none.
  telemetry::Registry* registry = nullptr;
};

// Heartbeats are sent by a thread of this object. The methods of Coordinator are called by one thread, the others by
// any.
class ControlClient : public job::Coordinator {
 public:
  // Does not connect yet. `waits` must outlive it.
  static std::unique_ptr<ControlClient> create(ControlOptions options, Waits& waits, Log log);

  // Called at most once, by join, if a worker of the job lacks an index of its record files. At that time all processes
  // have joined, rank() and workers() are known, the workers may call sum() and all_gather(), and start_timeout no
  // longer applies. Null for processes that have nothing to do then, such as servers.
  using Prepare = std::function<Result<Records>()>;

  // Returns when all processes have joined and are prepared. While the scheduler cannot be reached, it tries again,
  // until start_timeout (Code::kStartup). kUsage: the flags differ, or the rank is taken. kDenied: the token or the
  // build is wrong. kPreempted: request_stop was called.
  virtual Result<JoinReply> join(const JoinRequest& request, const Prepare& prepare) = 0;
  Result<JoinReply> join(const JoinRequest& request) { return join(request, nullptr); }

  // Called at most once, on the heartbeat thread, when the job has failed for this process: another one was lost or has
  // failed, or the scheduler went silent (kSchedulerLost, after the grace). All waits here return the same error. Set
  // it before join; it must be short.
  virtual void on_failure(std::function<void(const Error&)> callback) = 0;

  // Call it when a signal asks this process to stop. If join has not returned yet, it returns kPreempted. Otherwise all
  // workers stop, as may_begin tells them, and the servers stop with them.
  virtual void request_stop() = 0;

  // Asks the scheduler for a trace of the next steps of all processes; see rpc::Scheduler::request_trace.
  virtual void request_trace(uint64_t steps) = 0;

  // This process has failed, and must end: all waits here return the error, which is kept unless the job has failed
  // before. Any thread may call it. done() then tells the scheduler why, and with it the other processes.
  virtual void fail_with(const Error& error) = 0;

  // For servers: returns when all workers are done. kPreempted if the job was asked to stop; the job's error if it
  // failed.
  virtual Result<> wait_finish() = 0;

  // Tells the scheduler that this process ends, and with which error, if any. Repeats that until the scheduler has
  // acknowledged it, for at most scheduler_grace; once the scheduler has said that the job is over, for at most 2 s,
  // because the scheduler may have ended. Then ends the heartbeats.
  virtual void done(const Result<>& outcome) = 0;

  // The job's error, if there is one.
  [[nodiscard]] virtual Result<> state() const = 0;
};

}  // namespace dtrain::rpc
