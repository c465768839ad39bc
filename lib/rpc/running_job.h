// What `dtrain leave` and `dtrain join` ask of the scheduler of a running job.
#pragma once

#include <cstdint>
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
// Code::kUsage if the job has not started yet; the other errors are those of leave().
Result<JobDescription> describe_job(const net::Endpoint& scheduler, const Security& security);

}  // namespace dtrain::rpc
