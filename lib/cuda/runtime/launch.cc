#include "cuda/runtime/launch.h"

#include <cuda_runtime_api.h>

#include "cuda/runtime/error.h"

namespace dtrain::cuda {

void launch_kernel(const Launch& launch, const Kernel& kernel) {
  const dim3 grid(launch.grid.x, launch.grid.y, launch.grid.z), block(launch.block.x, launch.block.y, launch.block.z);
  const cudaError_t status = cudaLaunchKernel(kernel.function, grid, block, kernel.arguments, 0, launch.stream);
  // The error names the kernel, because the text of the call is the same for every kernel.
  if (status != cudaSuccess) throw_cuda_error(__FILE__, __LINE__, launch.name, static_cast<int>(status));
}

}  // namespace dtrain::cuda
