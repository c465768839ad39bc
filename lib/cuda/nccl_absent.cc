// Compiled instead of nccl_group.cc and nccl_collective.cc if the CUDA tree of the build has no NCCL.
#include "cuda/nccl_collective.h"
#include "cuda/nccl_group.h"

namespace dtrain::cuda {

Result<std::vector<std::unique_ptr<comm::Collective>>> join_devices(std::span<CudaExecutor* const> executors,
                                                                    const comm::Processes& processes) {
  return fail(Code::kDevice, "this build does not include NCCL, which training on {} GPUs needs: train with one GPU",
              executors.size() * processes.size);
}

std::string nccl_version() {
  return "";
}

}  // namespace dtrain::cuda
