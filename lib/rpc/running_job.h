// What `dtrain leave` and `dtrain join` ask of the scheduler of a running job.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "net/endpoint.h"
#include "rpc/security.h"

namespace dtrain::rpc {

// Asks that the worker with this rank leaves, waits until it has left, and returns the name of its host. The wait has
// no limit, because the worker ends its step first. Code::kUsage if the worker cannot leave, kUnavailable if no
// scheduler answers at this address, kDenied if the token or the build is wrong.
Result<std::string> leave(const net::Endpoint& scheduler, const Security& security, uint32_t rank);

struct JobDescription {
  std::string job;      // the file `jobspec` of the job: its JobSpec and the flags of the processes that it remembers
  std::string run_dir;  // the run directory, as an absolute path on the scheduler's host
};
// How describe_job() waits for a scheduler that may be coming back.
struct Patience {
  std::chrono::milliseconds limit{0};   // for how long the call is repeated until the scheduler answers
  std::function<void()> on_wait = {};   // called once, when the first call was not answered; may be null
  std::function<bool()> gives_up = {};  // whether the caller does not want to wait any longer; may be null
};
// Code::kUsage if the job has not started yet, kStartup if no scheduler answers in time, kDenied if the token, the
// build or a certificate is wrong, kPreempted if the caller gives up.
Result<JobDescription> describe_job(const net::Endpoint& scheduler, const Security& security,
                                    const Patience& patience = {});

}  // namespace dtrain::rpc
