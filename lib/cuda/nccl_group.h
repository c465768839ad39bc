// The group of the devices of this process, or of the devices of all workers.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/collective.h"
#include "comm/exchange.h"
#include "cuda/executor/executor.h"

namespace dtrain::cuda {

// Returns a rank of the group for each executor, in the order of `executors`. Each rank works in the stream of its
// executor's store (nccl_collective.h). Errors: those of DeviceModule::join; Code::kDevice if this build has no NCCL.
Result<std::vector<std::unique_ptr<comm::Collective>>> join_devices(std::span<CudaExecutor* const> executors,
                                                                    const comm::Processes& processes);

}  // namespace dtrain::cuda
