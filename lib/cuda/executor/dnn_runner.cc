#include "cuda/executor/dnn_runner.h"

#include <cuda_runtime_api.h>

#include <optional>

#include "base/mutex.h"
#include "cuda/dnn/handle.h"
#include "cuda/dnn/measure.h"
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

}  // namespace

class PlanStore {
 public:
  PlanStore(const exec::PlanSettings& settings, const Log& log)
      : deterministic(settings.deterministic),
        measuring_seconds_max(settings.measuring_seconds_max),
        cache_(settings.cache.empty() ? PlanCache() : PlanCache::open(settings.cache, log)),
        run_(settings.run.empty() ? PlanCache() : PlanCache::open_of_run(settings.run, settings.resumed, log)) {}

  // Makes a plan. One thread at a time, so that no measurement runs at the same time as another, and a device takes the
  // plans that another one has stored.
  Result<Plan> plan(Planner& planner, const ConvolutionPass& pass) {
    const MutexLock lock(mutex_);
    return planner.plan(pass);
  }

  // Without these files, the next start takes longer, and a resumed run may compute other bits.
  void save(const Log& log) {
    const MutexLock lock(mutex_);
    if (const Result<> saved = cache_.save(); !saved) {
      log.warn("cannot store cuDNN's plans, so the next run chooses them again: {}", saved.error().line());
    }
    if (const Result<> saved = run_.save(); !saved) {
      log.warn(
          "cannot store cuDNN's plans, so a resumed run may choose others, and its results may differ in the last "
          "bits: {}",
          saved.error().line());
    }
  }

  // For planners. They use the caches only in plan(), which holds the lock.
  [[nodiscard]] PlanFiles files() { return {&cache_, &run_, is_resumed_}; }

  const bool deterministic;
  const double measuring_seconds_max;

 private:
  Mutex mutex_;
  PlanCache cache_ DT_GUARDED_BY(mutex_), run_ DT_GUARDED_BY(mutex_);
  const bool is_resumed_ = run_.size() > 0;
};

namespace {

class DnnRunner final : public ConvolutionRunner {
 public:
  DnnRunner(CudnnHandle handle, Device device, std::shared_ptr<PlanStore> plans, const Log& log)
      : handle_(std::move(handle)), device_(std::move(device)), plans_(std::move(plans)), log_(log) {}

  Result<std::shared_ptr<const ConvolutionPlan>> plan(const ConvolutionPass& pass, bool tf32) override {
    DT_TRY(Plan plan, plans_->plan(planner(tf32), pass));
    return std::make_shared<DnnPlan>(std::move(plan), pass, handle_.get());
  }

  void planned() override {
    for (std::optional<Planner>& planner : planners_) {
      if (planner) planner->graph_done();
    }
    plans_->save(log_);
  }

 private:
  Planner& planner(bool tf32) {
    std::optional<Planner>& planner = planners_[tf32 ? 1 : 0];
    if (!planner) {
      const PlanOptions options{.tf32 = tf32, .deterministic = plans_->deterministic};
      const PlanTiming timing{
          .prepare = [handle = handle_.get()](const ConvolutionPass& pass) { return measure_on_device(handle, pass); },
          .seconds_max = plans_->measuring_seconds_max};
      planner.emplace(device_, options, plans_->files(), timing, log_);
    }
    return *planner;
  }

  CudnnHandle handle_;
  Device device_;
  std::shared_ptr<PlanStore> plans_;
  Log log_;
  std::optional<Planner> planners_[2];  // index 0 without TF32, index 1 with TF32
};

}  // namespace

std::shared_ptr<PlanStore> open_plan_store(const exec::PlanSettings& settings, const Log& log) {
  return std::make_shared<PlanStore>(settings, log);
}

Result<std::shared_ptr<ConvolutionRunner>> make_dnn_runner(int device, std::shared_ptr<PlanStore> plans,
                                                           const Log& log) {
  DT_CUDA(cudaSetDevice(device));
  CudnnHandle handle = make_cudnn_handle();
  DT_TRY(Device described, Device::of(handle.get()));
  return std::make_shared<DnnRunner>(std::move(handle), std::move(described), std::move(plans), log);
}

}  // namespace dtrain::cuda
