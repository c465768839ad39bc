// The module dtrain_cuda: the CUDA backend for a program that is not linked with CUDA (exec/device_module.h).
#include <cuda_runtime_api.h>

#include <array>

#include "base/host_limits.h"
#include "base/mutex.h"
#include "cuda/executor/backend.h"
#include "cuda/executor/dnn_runner.h"
#include "cuda/executor/host_executor.h"
#include "cuda/executor/planned_bytes.h"
#include "cuda/nccl_collective.h"
#include "cuda/nccl_group.h"
#include "cuda/optimizer.h"
#include "cuda/runtime/error.h"
#include "exec/device_module.h"

namespace dtrain::cuda {

namespace {

std::string reason_of(cudaError_t error) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) return "there is no NVIDIA driver";
  return fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
}

class CudaModule final : public exec::DeviceModule {
 public:
  Result<int> device_count() override {
    int count = 0;
    if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess && error != cudaErrorNoDevice) {
      return fail(Code::kDevice, "no GPU is usable: {}", reason_of(error));
    }
    return count;
  }

  Result<std::string> describe(int device) override {
    DT_TRY_VOID(check_exists(device));
    cudaDeviceProp found;
    if (const cudaError_t error = cudaGetDeviceProperties(&found, device); error != cudaSuccess) {
      return fail(Code::kDevice, "cannot use GPU {}: {}", device, reason_of(error));
    }
    return fmt::format("{}, sm_{}{}, {} processors, {:.1f} GiB", found.name, found.major, found.minor,
                       found.multiProcessorCount, static_cast<double>(found.totalGlobalMem) / (1 << 30));
  }

  Result<std::string> pci_bus_id(int device) override {
    DT_TRY_VOID(check_exists(device));
    std::array<char, 32> id{};  // more than the 13 characters of an address
    if (const cudaError_t error = cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), device);
        error != cudaSuccess) {
      return fail(Code::kDevice, "cannot use GPU {}: {}", device, reason_of(error));
    }
    return std::string(id.data());
  }

  Versions versions() override {
    int driver = 0, runtime = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
    if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) runtime = 0;
    return {cuda_version_text(driver), cuda_version_text(runtime), nccl_version()};
  }

  Result<PlannedBytes> planned_bytes(const graph::Graph& graph, const exec::Options& options) override {
    return cuda::planned_bytes(graph, options);
  }

  Result<std::unique_ptr<exec::Backend>> make_backend(int device, const exec::PlanSettings& plans,
                                                      const Log& log) override {
    try {
      DT_TRY_VOID(check_architecture(device), "opening GPU {}", device);
      DT_TRY(std::shared_ptr<ConvolutionRunner> runner, make_dnn_runner(device, plan_store(plans, log), log),
             "opening GPU {}", device);
      return cuda::make_backend(device, std::move(runner));
    } catch (const DeviceError& error) {
      return tl::unexpected(Error(error.error()).with(fmt::format("opening GPU {}", device)));
    }
  }

  Result<std::unique_ptr<optim::ArrayOptimizer>> make_optimizer(exec::Executor& executor,
                                                                const optim::OptimizerSpec& spec) override {
    return make_device_optimizer(executor, spec);
  }

  Result<std::vector<std::unique_ptr<comm::Collective>>> join(std::span<exec::Executor* const> executors,
                                                              const comm::Processes& processes) override {
    return join_devices(all_as<CudaExecutor>(executors), processes);
  }

  Result<> sum_gradients(std::span<exec::Executor* const> executors) override {
    const std::vector<HostExecutor*> all = all_as<HostExecutor>(executors);
    DT_TRY(std::vector<std::unique_ptr<comm::Collective>> group, join_devices(all_as<CudaExecutor>(executors), {}));
    for (size_t i = 0; i < all.size(); i++) all[i]->sum_gradients_over(std::move(group[i]));
    return {};
  }

 private:
  // The store of these files that another backend uses, or a new one.
  std::shared_ptr<PlanStore> plan_store(const exec::PlanSettings& settings, const Log& log) {
    const MutexLock lock(mutex_);
    std::shared_ptr<PlanStore> store = last_store_.lock();
    if (store == nullptr || !(last_settings_ == settings)) store = open_plan_store(settings, log);
    last_store_ = store;
    last_settings_ = settings;
    return store;
  }

  Result<> check_exists(int device) {
    DT_TRY(const int count, device_count());
    if (device < count) return {};
    return fail(Code::kDevice, "there is no GPU {}: this process can use {} (CUDA_VISIBLE_DEVICES can hide others)",
                device, count == 1 ? "only GPU 0" : fmt::format("the GPUs 0 to {}", count - 1));
  }

  // Returns an error if the device is older than kOldestMajor, because the module contains no code for such devices.
  static Result<> check_architecture(int device) {
    constexpr int kOldestMajor = 8;
    cudaDeviceProp found;
    DT_CUDA(cudaGetDeviceProperties(&found, device));
    if (found.major >= kOldestMajor) return {};
    return fail(Code::kDevice,
                "GPU {} on {} ({}, sm_{}{}) is older than this program supports: use a GPU of sm_{}0 or "
                "later",
                device, host_name(), found.name, found.major, found.minor, kOldestMajor);
  }

  template <class Kind>
  static std::vector<Kind*> all_as(std::span<exec::Executor* const> executors) {
    std::vector<Kind*> all;
    all.reserve(executors.size());
    for (exec::Executor* executor : executors) all.push_back(&dynamic_cast<Kind&>(*executor));
    return all;
  }

  Mutex mutex_;
  std::weak_ptr<PlanStore> last_store_ DT_GUARDED_BY(mutex_);
  exec::PlanSettings last_settings_ DT_GUARDED_BY(mutex_);  // of last_store_
};

}  // namespace

}  // namespace dtrain::cuda

extern "C" dtrain::exec::DeviceModule* dtrain_make_device_module() {
  return new dtrain::cuda::CudaModule;
}
