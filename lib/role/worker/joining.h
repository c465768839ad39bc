// How a worker joins and leaves a job, both for training and for calibration.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/mutex.h"
#include "base/signals.h"
#include "base/waits.h"
#include "data/loading/open.h"
#include "job/spec/job_plan.h"
#include "job/spec/job_spec.h"
#include "role/process/process.h"
#include "rpc/control_client.h"

namespace dtrain::role {

// Passes the job's failure on to the wait that the step loop is in, at any time and on any thread. The control line
// outlives the store and the pipes to the servers; the relay calls them only while they are registered with listen().
class FailureRelay {
 public:
  void fail(const Error& error) DT_EXCLUDES(mutex_);
  // Waits for the job's failure for at most `limit`. Nullopt if there was none.
  std::optional<Error> wait(std::chrono::milliseconds limit) DT_EXCLUDES(mutex_);
  // Registers `end`, which is called once with the failure, at once if the job has already failed. Null unregisters it.
  void listen(std::function<void(const Error&)> end) DT_EXCLUDES(mutex_);

 private:
  void pass_on() DT_REQUIRES(mutex_);

  Mutex mutex_;
  ConditionVariable failed_;
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);
  std::function<void(const Error&)> end_ DT_GUARDED_BY(mutex_);
};

// What a worker has before it joins a job.
struct Connection {
  rpc::Security security;
  rpc::Incarnation incarnation = rpc::make_incarnation();
  sync::seat::Worker::Request request = {};  // for a seat, as this incarnation
  Waits waits;
  FailureRelay failure;  // declared before the control line, whose thread calls this member
  std::unique_ptr<rpc::ControlClient> control;
};

// What a worker has once the job has started.
struct JoinedJob {
  rpc::JoinReply reply;
  job::JobSpec spec;  // the complete JobSpec
  job::JobPlan plan;
  data::DataSets data;
};

class Listening {
 public:
  Listening(FailureRelay& relay, std::function<void(const Error&)> end) : relay_(relay) {
    relay_.listen(std::move(end));
  }
  ~Listening() { relay_.listen(nullptr); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  FailureRelay& relay_;
};

// Joins the job as a worker, runs `work`, and reports the outcome to the scheduler. When `work` begins, process.flags
// contains the job's flags from the JobSpec. If the worker loses its seat although it lives, everything of `work` is
// closed when it returns; then this function joins the running job again and calls `work` once more, as often as the
// scheduler gives it a seat. Returns the exit code.
using WorkInJob = std::function<Result<int>(Process& process, Connection& connection, const JoinedJob& joined)>;
Result<int> run_in_job(const job::Flags& flags, const Signals& signals, const WorkInJob& work);

}  // namespace dtrain::role
