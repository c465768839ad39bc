// Turns the flags that were given into the values that the job will use: sets defaults that depend on other flags, and
// refuses combinations that do not fit together.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "job/process/inject.h"

namespace dtrain::job {

struct Flags;
struct DeviceFlags;

// Reads `flags.sources` to see which flags were given. Code::kUsage names the flags at fault. Idempotent.
Result<> resolve(Flags& flags);

// Code::kUsage if --work-load-list has not one number per device. resolve() checks this itself, unless --gpus is "all".
Result<> check_work_loads(const DeviceFlags& device);

// The number of processes in a job.
struct ProcessCounts {
  int64_t workers = 0, servers = 0, schedulers = 1;
};
// Code::kUsage if a rule of --inject names a process that does not exist.
Result<> check_processes(const Inject& inject, const ProcessCounts& counts);

}  // namespace dtrain::job
