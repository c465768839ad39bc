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
#include "rpc/running_job.h"
#include "rpc/security.h"
#include "rpc/state_file.h"
#include "telemetry/tracer.h"

namespace dtrain::rpc {

// The job once all processes have joined.
struct Joined {
  std::vector<Node> nodes;  // workers by rank, then servers by rank
  uint64_t records_train = 0;
  uint64_t records_val = 0;
};

// What SchedulerOptions::finish_job derives from Joined.
struct CompleteJob {
  std::string text;
  std::vector<uint32_t> stop_set_of = {};  // the stop set of each seat, as in sync::membership::Ready
  // Group of each worker. Workers of one group make the same steps. Empty: all workers are in one group.
  std::vector<uint32_t> group_of = {};
  JobDescription description = {};  // for workers that join while the job runs
};

struct SchedulerOptions {
  net::Listen listen;
  std::string host;  // where other hosts reach the scheduler, for messages
  Security security;
  sync::membership::Settings membership;
  // The tracer of this process, which must outlive the scheduler. Null: the scheduler's own work is not traced.
  telemetry::Tracer* tracer = nullptr;
  // Completes the job (placement, shares, batches of an epoch) before the joins are answered. Called once, by the
  // scheduler's thread. An error ends the start of all processes.
  std::function<Result<CompleteJob>(const Joined&)> finish_job;
  // Where the scheduler keeps what it decides, so that another one can continue the job. Null: nowhere.
  std::shared_ptr<StateFile> state = nullptr;
  // The scheduler continues a job that has started, with this complete JobSpec, which finish_job has returned in the
  // process before. Called instead of finish_job, by Scheduler::start.
  std::function<Result<>(const std::string& job_text)> continue_job = nullptr;
};

struct MemberPulse {
  Member member;
  std::string host;  // the process's own host name
  Pulse pulse;
  std::chrono::steady_clock::time_point heard;
  bool is_lost = false;    // the process ended without a goodbye, or counts as lost
  bool has_left = false;   // the worker has left the job as it was asked
  bool has_ended = false;  // the process has said goodbye
};

// A worker that was lost, has left or has joined while the job continues.
struct MemberChange {
  enum class Kind {
    kLost,
    kLeft,
    kJoined,
    kAwaited,  // another worker is needed in this place: one that was about to take it has given up, or the scheduler
               // has come back and does not know whether one was asked for
  };
  Kind kind = Kind::kLost;
  Member member;
  std::string host;
  std::string why;     // of a loss: a text such as "silent for 10100 ms"; otherwise empty
  uint64_t steps = 0;  // steps that the worker had reported
};

// Any thread may call the functions of a Scheduler.
class Scheduler {
 public:
  // Starts to listen, and returns. Code::kStartup: see rpc::listen. kData: SchedulerOptions::state is of no use.
  static Result<std::unique_ptr<Scheduler>> start(SchedulerOptions options, const Log& log);
  virtual ~Scheduler() = default;

  [[nodiscard]] virtual uint16_t port() const = 0;
  // Waits for the end of the job, or for a change of its workers, for at most `limit`. Nullopt if the job has not ended
  // by then; otherwise the first error, or success. Before it waits, writes this process's part of a trace that is
  // over.
  virtual std::optional<Result<>> wait(std::chrono::milliseconds limit) = 0;
  // Stops the job. To be called when a signal asks this process to stop.
  virtual void request_stop() = 0;
  // Counts a process that lives but does not move as lost. `why` is a sentence about it.
  virtual void give_up(const Member& member, const std::string& why) = 0;
  // The process has ended, as its launcher reports: "was killed by signal 9 (Killed)". If it has not said goodbye, it
  // counts as lost at once.
  virtual void process_ended(const Member& member, const std::string& how) = 0;
  using TraceAnswer = std::function<void(const Result<telemetry::TraceRequest>&)>;
  // Asks for a trace of `steps` steps (0: the default) of all processes, which write it into their run directories
  // (telemetry/tracer.h). Refused before the start, while a trace is in progress, and for some seconds after one began.
  // The scheduler's thread calls `answer`, which may be null, with the trace or the reason for the refusal. After the
  // end of the job it is not called.
  virtual void request_trace(uint64_t steps, TraceAnswer answer) = 0;
  // The last report of each process: servers, then workers, each sorted by rank. Empty before the start.
  [[nodiscard]] virtual std::vector<MemberPulse> pulses() const = 0;
  // The changes since the last call, in order.
  virtual std::vector<MemberChange> take_changes() = 0;
};

}  // namespace dtrain::rpc
