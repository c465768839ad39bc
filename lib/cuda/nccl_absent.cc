// In the place of nccl_group.cc where the CUDA tree of the build has no NCCL.
#include "cuda/nccl_group.h"

namespace dtrain::cuda {

Result<std::vector<std::unique_ptr<comm::Collective>>> join_in_process(std::span<CudaExecutor* const> executors) {
  return fail(Code::kDevice, "{} GPUs need NCCL, which this build has not: train with one", executors.size());
}

}  // namespace dtrain::cuda
