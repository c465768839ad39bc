#include "cuda/executor/dnn_runner.h"

#include <cuda_runtime_api.h>

#include <optional>

#include "cuda/dnn/handle.h"
#include "cuda/dnn/planner.h"

namespace dtrain::cuda {

namespace {

class DnnPlan final : public ConvolutionPlan {
 public:
  DnnPlan(Plan plan, const ConvolutionPass& pass, cudnnHandle_t handle)
      : plan_(std::move(plan)),
        has_bias_(pass.has_bias()),
        has_z_(pass.pass == Pass::kForward && pass.adds),
        handle_(handle) {}

  [[nodiscard]] size_t workspace_bytes() const override { return plan_.workspace_bytes(); }

  [[nodiscard]] Call bind(const ConvolutionPointers& at) const override {
    std::vector<Binding> bindings{{Slot::kX, at.x}, {Slot::kW, at.w}, {Slot::kY, at.y}};
    if (has_bias_) bindings.push_back({Slot::kBias, at.bias});
    if (has_z_) bindings.push_back({Slot::kZ, at.z});
    // Calls are copied, but a bound plan is not copyable.
    const auto bound = std::make_shared<const BoundPlan>(plan_.bind(bindings, at.workspace));
    return [bound, handle = handle_](cudaStream_t stream) { bound->run(handle, stream); };
  }

 private:
  Plan plan_;
  bool has_bias_, has_z_;
  cudnnHandle_t handle_;
};

class DnnRunner final : public ConvolutionRunner {
 public:
  DnnRunner(CudnnHandle handle, Device device, PlanCache cache, const Log& log)
      : handle_(std::move(handle)), device_(std::move(device)), cache_(std::move(cache)), log_(log) {}

  Result<std::shared_ptr<const ConvolutionPlan>> plan(const ConvolutionPass& pass, bool tf32) override {
    DT_TRY(Plan plan, planner(tf32).plan(pass));
    return std::make_shared<DnnPlan>(std::move(plan), pass, handle_.get());
  }

  // Stores the plans. A cache that cannot be written only costs time at the next start.
  void planned() override {
    if (const Result<> saved = cache_.save(); !saved)
      log_.warn("cannot store cuDNN's plans, so the next run chooses them again: {}", saved.error().line());
  }

 private:
  Planner& planner(bool tf32) {
    std::optional<Planner>& planner = planners_[tf32 ? 1 : 0];
    if (!planner) planner.emplace(device_, PlanOptions{.tf32 = tf32, .deterministic = true}, PlanFiles{&cache_});
    return *planner;
  }

  CudnnHandle handle_;
  Device device_;
  PlanCache cache_;
  Log log_;
  std::optional<Planner> planners_[2];  // index 0 without TF32, index 1 with TF32
};

}  // namespace

Result<std::shared_ptr<ConvolutionRunner>> make_dnn_runner(int device, const std::string& plan_cache, const Log& log) {
  DT_CUDA(cudaSetDevice(device));
  CudnnHandle handle = make_cudnn_handle();
  DT_TRY(Device described, Device::of(handle.get()));
  PlanCache cache = plan_cache.empty() ? PlanCache() : PlanCache::open(plan_cache, log);
  return std::make_shared<DnnRunner>(std::move(handle), std::move(described), std::move(cache), log);
}

}  // namespace dtrain::cuda
