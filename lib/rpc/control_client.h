// The client of the scheduler in a worker or server: joins the job, sends heartbeats, takes part in barriers and sums,
// and learns when the job is over. The protocol is in proto/scheduler.proto.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/step_faults.h"
#include "base/waits.h"
#include "job/process/coordinator.h"
#include "net/endpoint.h"
#include "rpc/job_types.h"
#include "rpc/own_seat.h"
#include "rpc/security.h"
#include "telemetry/registry.h"
#include "telemetry/tracer.h"

namespace dtrain::rpc {

struct ControlOptions {
  net::Endpoint scheduler;
  Security security;
  Incarnation incarnation = 0;  // identifies this process; from make_incarnation()
  OwnSeat* seat = nullptr;      // of a worker, which has asked for a seat with this incarnation; null for a server
  std::chrono::milliseconds start_timeout{300'000};
  std::chrono::milliseconds heartbeat_interval{2'000};
  std::chrono::milliseconds heartbeat_timeout{10'000};
  std::chrono::milliseconds scheduler_grace{30'000};
  telemetry::Tracer* tracer = nullptr;  // receives trace requests and the scheduler's clock; may be null
  // Heartbeats carry the metrics of this registry, which must outlive the client. Null: they carry none.
  telemetry::Registry* registry = nullptr;
  std::shared_ptr<FailPoints> fail_points = nullptr;  // are told of each message; null: are not
};

// A thread of this object sends the heartbeats. One thread calls the methods of Coordinator; any thread may call the
// others.
class ControlClient : public job::Coordinator {
 public:
  // Does not connect yet. `waits` must outlive the client.
  static std::unique_ptr<ControlClient> create(ControlOptions options, Waits& waits, Log log);

  // Called at most once, by join, if a worker of the job lacks an index of its record files. At that time all processes
  // have joined, rank() and workers() are known, the workers may call sum() and all_gather(), and start_timeout no
  // longer applies. Null for processes that have nothing to prepare, such as servers.
  using Prepare = std::function<Result<Records>()>;

  // Returns when all processes have joined and are prepared. Retries while the scheduler cannot be reached, until
  // start_timeout, or scheduler_grace for a process that joins the running job (Code::kStartup). kUsage if the flags
  // differ or the rank is taken. kDenied if the token or the build is wrong. kPreempted if request_stop was called.
  virtual Result<JoinReply> join(const JoinRequest& request, const Prepare& prepare) = 0;
  Result<JoinReply> join(const JoinRequest& request) { return join(request, nullptr); }

  // Sets a callback for the failure of the job: another process was lost or has failed, or the scheduler was silent for
  // longer than the grace (kSchedulerLost). It is called at most once, on the heartbeat thread, and must be short. All
  // waiting calls of this object return the same error. Call this before join.
  virtual void on_failure(std::function<void(const Error&)> callback) = 0;

  // To be called when a signal asks this process to stop. If join has not returned yet, it returns kPreempted.
  // Otherwise may_begin makes all workers stop, and the servers stop with them.
  virtual void request_stop() = 0;

  // To be called when a signal asks this worker to leave the job. If the others can continue without it, may_begin
  // returns false before the next step, and leaves() returns true; otherwise the effect is that of request_stop.
  virtual void request_leave() = 0;

  // Asks the scheduler for a trace of the next steps of all processes; see rpc::Scheduler::request_trace.
  virtual void request_trace(uint64_t steps) = 0;

  // Reports that this process has failed and must end. All waiting calls return the error, unless the job has failed
  // before: then they return the first error. done() passes the error to the scheduler, which passes it to the other
  // processes. Any thread may call this.
  virtual void fail_with(const Error& error) = 0;

  // Tells the scheduler at once, and with each heartbeat, which connections to servers are lost at the moment. If one
  // stays lost for the heartbeat timeout, the scheduler decides which end counts as lost. Any thread may call this.
  virtual void report_lost_links(std::vector<LostLink> links) = 0;

  // For servers: returns the newest view when it has changed since the last call, and nullopt when all workers are
  // done. kPreempted if the job was asked to stop; the job's error if it failed.
  virtual Result<std::optional<sync::View>> wait_view() = 0;
  // For workers: `callback` gets the newest view, if there is one, on this thread, and then each newer one, on a thread
  // of the connection. The first one may come twice. It must be short, and is not called anymore once
  // watch_views(nullptr) has returned.
  virtual void watch_views(std::function<void(const sync::View&)> callback) = 0;
  // Tells the scheduler that this server has carried out the view with this number.
  virtual void acknowledge_view(uint64_t number) = 0;
  // Tells the scheduler at once, and with each heartbeat, of which versions this server has durable snapshots. Any
  // thread may call this.
  virtual void report_snapshots(SnapshotReport report) = 0;

  // Reports to the scheduler that this process ends, with its error if it has one, unless it has lost its seat: then
  // nothing that it says counts. Retries until the scheduler has
  // acknowledged the report, for at most scheduler_grace. If the scheduler has already announced that the job is over,
  // retries for at most 2 s, because the scheduler may be gone. Then stops the heartbeats.
  virtual void done(const Result<>& outcome) = 0;

  // The job's error, if there is one.
  [[nodiscard]] virtual Result<> state() const = 0;
};

}  // namespace dtrain::rpc
