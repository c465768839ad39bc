// The group of the devices of this process.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/collective.h"
#include "cuda/executor/executor.h"

namespace dtrain::cuda {

// An end for each executor, in order, in the stream of its store: nccl_collective.h. Code::kStartup, kDevice: they did
// not come together; this build has no NCCL.
Result<std::vector<std::unique_ptr<comm::Collective>>> join_in_process(std::span<CudaExecutor* const> executors);

}  // namespace dtrain::cuda
