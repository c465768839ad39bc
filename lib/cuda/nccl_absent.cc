// Replaces nccl_group.cc if the CUDA tree of the build has no NCCL.
#include "cuda/nccl_group.h"

namespace dtrain::cuda {

Result<std::vector<std::unique_ptr<comm::Collective>>> join_devices(std::span<CudaExecutor* const> executors,
                                                                    const comm::Processes& processes) {
  return fail(Code::kDevice, "{} GPUs need NCCL, which this build has not: train with one",
              executors.size() * processes.size);
}

}  // namespace dtrain::cuda
