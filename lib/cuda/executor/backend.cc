#include "cuda/executor/backend.h"

#include <cuda_runtime_api.h>

#include "cuda/executor/executor.h"
#include "cuda/runtime/memory.h"

namespace dtrain::cuda {

namespace {

class CudaBackend final : public exec::Backend {
 public:
  CudaBackend(int device, std::shared_ptr<ConvolutionRunner> runner) : device_(device), runner_(std::move(runner)) {}

  Result<std::unique_ptr<exec::Executor>> compile(const graph::Graph& graph, const exec::Options& options,
                                                  exec::Executor* weights_of) override {
    try {
      DT_TRY(std::unique_ptr<exec::Executor> executor,
             CudaExecutor::compile(graph, options, weights_of, device_, runner_));
      return executor;
    } catch (const DeviceError& error) {
      return tl::unexpected(
          Error(error.error()).with(fmt::format("preparing batches of {} images", options.batch_size)));
    }
  }

  FloatAllocator batch_memory() override {
    return [device = device_](size_t count) {
      DT_CUDA(cudaSetDevice(device));
      return pinned_floats(count);
    };
  }

 private:
  int device_;
  std::shared_ptr<ConvolutionRunner> runner_;
};

}  // namespace

std::unique_ptr<exec::Backend> make_backend(int device, std::shared_ptr<ConvolutionRunner> runner) {
  return std::make_unique<CudaBackend>(device, std::move(runner));
}

}  // namespace dtrain::cuda
