#include "machine.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/dnn/device.h"
#include "cuda/dnn/handle.h"
#include "cuda/executor/backend.h"
#include "cuda/executor/dnn_runner.h"
#include "cuda/nccl_collective.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/nccl_error.h"
#include "role/setup/device_loader.h"

namespace dtrain::gpu {

namespace {

constexpr int kDevice = 0;

std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Result<Facts> facts_of_device() {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaDriverGetVersion(&driver);
  if (error != cudaSuccess || count == 0) {
    return fail(Code::kDevice, "no GPU: {}; run this on a machine with an NVIDIA GPU and its driver",
                driver == 0            ? "there is no NVIDIA driver"
                : error == cudaSuccess ? "the driver shows none"
                                       : cudaGetErrorString(error));
  }
  cudaDeviceProp found;
  DT_CUDA(cudaGetDeviceProperties(&found, kDevice));
  DT_CUDA(cudaRuntimeGetVersion(&runtime));
  int nccl = 0;
  DT_NCCL(ncclGetVersion(&nccl));
  const cuda::CudnnHandle handle = cuda::make_cudnn_handle();
  DT_TRY(const cuda::Device described, cuda::Device::of(handle.get()));
  return Facts{.name = found.name,
               .capability = fmt::format("{}.{}", found.major, found.minor),
               .processors = found.multiProcessorCount,
               .memory_bytes = static_cast<int64_t>(found.totalGlobalMem),
               .cuda_driver = cuda_version(driver),
               .cuda_runtime = cuda_version(runtime),
               .cudnn = cuda::cudnn_version_text(),
               .nccl = fmt::format("{}.{}.{}", nccl / 10000, nccl / 100 % 100, nccl % 100),
               .properties = described.json()};
}

// Milliseconds that the device needs for what `work` queues on the stream; the median of several runs, by the device's
// clock.
double median_ms(cudaStream_t stream, const std::function<void()>& work) {
  constexpr size_t kRuns = 11;
  const cuda::CudaEvent begin = cuda::make_event(true), end = cuda::make_event(true);
  std::vector<float> all;
  for (size_t run = 0; run < kRuns + 2; run++) {  // two to warm up
    DT_CUDA(cudaEventRecord(begin.get(), stream));
    work();
    DT_CUDA(cudaEventRecord(end.get(), stream));
    DT_CUDA(cudaEventSynchronize(end.get()));
    float ms = 0;
    DT_CUDA(cudaEventElapsedTime(&ms, begin.get(), end.get()));
    if (run >= 2) all.push_back(ms);
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

// Runs every operation of a group of one rank on device memory. The stream has completed them when this returns.
Result<> all_operations(comm::Collective& group, std::span<float> values) {
  DT_TRY_VOID(group.all_reduce(values));
  DT_TRY_VOID(group.reduce_scatter(values));
  DT_TRY_VOID(group.all_gather(values));
  DT_TRY_VOID(group.reduce(values, 0));
  return group.broadcast(values, 0);
}

using CudaGraph = cuda::Handle<cudaGraph_t, cudaGraphDestroy>;
using CudaGraphExec = cuda::Handle<cudaGraphExec_t, cudaGraphExecDestroy>;

CudaGraphExec captured(cudaStream_t stream, const std::function<Result<>()>& work, Result<>& outcome) {
  DT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  outcome = work();
  cudaGraph_t raw = nullptr;
  DT_CUDA(cudaStreamEndCapture(stream, &raw));
  const CudaGraph graph(raw);
  cudaGraphExec_t exec = nullptr;
  if (outcome) DT_CUDA(cudaGraphInstantiate(&exec, graph.get(), 0));
  return CudaGraphExec(exec);
}

class CudaMachine final : public Machine {
 public:
  CudaMachine(Facts facts, std::unique_ptr<exec::Backend> backend, std::unique_ptr<exec::Backend> fast)
      : facts_(std::move(facts)), backend_(std::move(backend)), fast_(std::move(fast)) {}

  [[nodiscard]] const Facts& facts() const override { return facts_; }
  exec::Backend& backend() override { return *backend_; }
  exec::Backend& fast_backend() override { return *fast_; }
  void use() override { DT_CUDA(cudaSetDevice(kDevice)); }

  Result<> synchronise() override {
    const cudaError_t error = cudaDeviceSynchronize();
    if (error == cudaSuccess) return {};
    return fail(Code::kDevice, "the device is lost: {} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
  }

  MemoryUse memory() override {
    size_t free = 0, total = 0;
    DT_CUDA(cudaMemGetInfo(&free, &total));
    return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
  }

  Result<> nccl_alone() override {
    const auto store = std::make_shared<cuda::StoreStream>(kDevice);
    const cudaStream_t stream = store->get();
    DT_TRY(const std::string id, cuda::agree_on_nccl_id(0, 1, comm::Processes().exchange));
    DT_TRY(const auto group, cuda::join_nccl({.store = store}, id));
    std::vector<float> sent(1 << 20), received(sent.size());
    for (size_t i = 0; i < sent.size(); i++) sent[i] = static_cast<float>(i % 1000);
    const cuda::DeviceMemory memory(sent.size() * sizeof(float));
    DT_CUDA(cudaMemcpyAsync(memory.at(0), sent.data(), memory.bytes(), cudaMemcpyHostToDevice, stream));
    const std::span<float> values(static_cast<float*>(memory.at(0)), sent.size());
    const auto work = [&] { return all_operations(*group, values); };
    for (int run = 0; run < 2; run++) DT_TRY_VOID(work());
    Result<> capture;
    const CudaGraphExec graph = captured(stream, work, capture);
    DT_TRY_VOID(std::move(capture), "capturing the operations");
    DT_CUDA(cudaGraphLaunch(graph.get(), stream));
    DT_CUDA(cudaMemcpyAsync(received.data(), memory.at(0), memory.bytes(), cudaMemcpyDeviceToHost, stream));
    DT_CUDA(cudaStreamSynchronize(stream));
    if (received != sent) return fail(Code::kDevice, "a group of one rank changed its array");
    return {};
  }

  std::string module_path() override { return kCudaModule.file; }

  // 2 GiB, or a quarter of the free memory: far larger than any cache.
  Result<CopyRates> copy_rates() override {
    const size_t bytes = std::min<size_t>(size_t{2} << 30, static_cast<size_t>(memory().free_bytes) / 4);
    const size_t host_bytes = std::min<size_t>(bytes, size_t{256} << 20);
    const cuda::DeviceMemory from(bytes), to(bytes);
    const cuda::PinnedMemory host(host_bytes);
    const cuda::CudaStream stream = cuda::make_stream();
    const auto rate = [&](void* target, const void* source, size_t size, cudaMemcpyKind kind) {
      const double ms =
          median_ms(stream.get(), [&] { DT_CUDA(cudaMemcpyAsync(target, source, size, kind, stream.get())); });
      return static_cast<double>(size) / ms / 1e6;
    };
    return CopyRates{.device = 2 * rate(to.at(0), from.at(0), bytes, cudaMemcpyDeviceToDevice),
                     .to_device = rate(to.at(0), host.data(), host_bytes, cudaMemcpyHostToDevice),
                     .to_host = rate(host.data(), from.at(0), host_bytes, cudaMemcpyDeviceToHost)};
  }

 private:
  Facts facts_;
  std::unique_ptr<exec::Backend> backend_, fast_;
};

Result<std::unique_ptr<exec::Backend>> open_backend(const exec::PlanSettings& plans, const Log& log) {
  DT_TRY(std::shared_ptr<cuda::ConvolutionRunner> runner,
         cuda::make_dnn_runner(kDevice, cuda::open_plan_store(plans, log), log));
  return cuda::make_backend(kDevice, std::move(runner));
}

}  // namespace

Result<std::unique_ptr<Machine>> open_machine(const PlanFile& plans, const Log& log) {
  try {
    DT_TRY(Facts facts, facts_of_device());
    // Each backend has a file of its own, because the one that saves last would replace the other's plans.
    const exec::PlanSettings measured{.measuring_seconds_max = plans.measuring_seconds_max,
                                      .cache = plans.path.empty() ? "" : plans.path + ".measured"};
    DT_TRY(std::unique_ptr<exec::Backend> same_bits, open_backend({.deterministic = true, .cache = plans.path}, log));
    DT_TRY(std::unique_ptr<exec::Backend> fast, open_backend(measured, log));
    return std::make_unique<CudaMachine>(std::move(facts), std::move(same_bits), std::move(fast));
  } catch (const cuda::DeviceError& error) {
    return fail(Code::kDevice, "{}", error.what());
  }
}

}  // namespace dtrain::gpu
