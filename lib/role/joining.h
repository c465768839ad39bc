// A worker's way into its job and out of it again: the same whether it trains or only measures itself.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/signals.h"
#include "base/waits.h"
#include "data/open.h"
#include "job/job_spec.h"
#include "role/process.h"
#include "rpc/control_client.h"

namespace dtrain::role {

// Carries the job's failure, whenever it comes and on whichever thread, to what the step loop waits in. The control
// line lives longer than store and pipes, so it is told of them for as long as they are there.
class FailureRelay {
 public:
  void fail(const Error& error);
  // The job's failure if it comes within the limit.
  std::optional<Error> wait(std::chrono::milliseconds limit);
  // `end` is called, once, with the failure that has come or will come; nullptr: nobody listens any more.
  void listen(std::function<void(const Error&)> end);

 private:
  void pass_on();

  std::mutex mutex_;
  std::condition_variable failed_;
  std::optional<Error> error_;
  std::function<void(const Error&)> end_;
};

// What a worker has before it joins.
struct Connection {
  rpc::Security security;
  rpc::Incarnation incarnation = rpc::make_incarnation();
  Waits waits;
  FailureRelay failure;  // before the control line, whose thread calls it
  std::unique_ptr<rpc::ControlClient> control;
};

// What it has from then on.
struct JoinedJob {
  rpc::JoinReply reply;
  job::JobSpec spec;  // complete
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

// Joins as a worker, works, and says goodbye with what has come of it. The process's flags of the job are the JobSpec's
// when the work begins. Gives its exit code; an Error otherwise.
using WorkInJob = std::function<Result<int>(Process& process, Connection& connection, const JoinedJob& joined)>;
Result<int> run_in_job(const job::Flags& flags, const Signals& signals, const WorkInJob& work);

}  // namespace dtrain::role
