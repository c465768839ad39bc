// The group of the devices of this process, or of those of all workers.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/collective.h"
#include "comm/exchange.h"
#include "cuda/executor/executor.h"

namespace dtrain::cuda {

// An end for each executor, in order, in the stream of its store: nccl_collective.h. Errors: DeviceModule::join's;
// Code::kDevice: this build has no NCCL.
Result<std::vector<std::unique_ptr<comm::Collective>>> join_devices(std::span<CudaExecutor* const> executors,
                                                                    const comm::Processes& processes);

}  // namespace dtrain::cuda
