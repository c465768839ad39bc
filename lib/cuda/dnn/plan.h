// A plan: one cuDNN engine with its settings, compiled for one operation graph and one device. A search goes through
// the configurations that cuDNN's heuristics list (mode A, then fallback) in their order, except those that the options
// rule out. Engines that are compiled at run time come after all others. Either the first configuration that finalizes
// within the workspace limit is chosen, or several are measured and the fastest is chosen.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn_graph.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cuda/dnn/descriptor.h"
#include "cuda/dnn/device.h"
#include "cuda/dnn/operations.h"

namespace dtrain::cuda {

struct PlanOptions {
  int64_t workspace_bytes_max = int64_t{256} << 20;
  bool tf32 = false;                // float32: products may be rounded to TF32
  bool winograd = false;            // allow engines that trade exactness for fewer products
  bool reduced_sums = false;        // allow engines that sum in less than float32, as special engines for 7x7 stems do
  bool deterministic = false;       // only engines that cuDNN does not call nondeterministic
  bool compile_at_run_time = true;  // if no other engine is left, use one that the device's driver compiles

  [[nodiscard]] std::string key() const;  // identifies these options in the key of a stored plan
};

// The device address of one tensor of a plan, aligned to OperationGraph::kAlignment.
struct Binding {
  Slot slot;
  void* pointer;
};

// A plan with its pointers; the plan must outlive it. Running allocates nothing and may be captured in a CUDA graph.
class BoundPlan {
 public:
  // Enqueues the work. The handle must be one for the plan's device; its stream becomes `stream`. DeviceError.
  void run(cudnnHandle_t handle, cudaStream_t stream) const;

 private:
  friend class Plan;
  BoundPlan(const Descriptor& plan, Descriptor pack) : plan_(plan.get()), pack_(std::move(pack)) {}
  cudnnBackendDescriptor_t plan_;
  Descriptor pack_;
};

class Plan {
 public:
  // Device memory that a run needs in addition to the tensors. Its content need not be preserved between runs.
  [[nodiscard]] size_t workspace_bytes() const { return workspace_bytes_; }
  [[nodiscard]] int64_t engine() const { return engine_; }
  // For example "eng53_k2=28_k27=1": the engine and its knob choices (cudnnBackendKnobType_t), in cuDNN's order.
  [[nodiscard]] const std::string& tag() const { return tag_; }
  // Whether the engine has no precompiled code, so that the driver compiles it when the plan is finalized.
  [[nodiscard]] bool compiled_at_run_time() const { return compiled_at_run_time_; }
  // cuDNN's text form of the plan, from which load_plan restores it without the heuristics.
  [[nodiscard]] std::string json() const;

  // Needs one pointer for each slot of the graph, and workspace_bytes() at `workspace`.
  [[nodiscard]] BoundPlan bind(std::span<const Binding> bindings, void* workspace) const;
  // Equivalent to bind() followed by run(). Allocates on the host, so use it for work that runs once.
  void execute(cudnnHandle_t handle, std::span<const Binding> bindings, void* workspace, cudaStream_t stream) const;

 private:
  friend class PlanSearch;
  friend Result<Plan> load_plan(const Device&, const std::string&);
  explicit Plan(Descriptor plan);

  Descriptor plan_;
  size_t workspace_bytes_ = 0;
  int64_t engine_ = 0;
  std::string tag_;
  bool compiled_at_run_time_ = false;
};

// Returns the first plan. `type` is the type of the tensors that are multiplied. Code::kDevice if no engine can run the
// graph on this device under these options; the message counts the reasons.
Result<Plan> choose_plan(const Device& device, const Descriptor& graph, cudnnDataType_t type,
                         const PlanOptions& options);

// A plan with the seconds that one run of it took; nullopt if it was not measured.
struct TimedPlan {
  Plan plan;
  std::optional<double> seconds = {};
};

// Runs a plan and returns the seconds that one run takes. An error excludes the plan.
using Measure = std::function<Result<double>(const Plan& plan)>;

// The largest number of plans that are measured. Fewer of those that are compiled at run time, because compiling one
// takes seconds.
inline constexpr int kPrecompiledMeasuredMax = 8, kCompiledMeasuredMax = 2;
// Of plans whose times differ by at most this share, the first one is chosen. Measured times vary by about as much.
inline constexpr double kEqualTimes = 0.02;

// Measures plans and returns the fastest. After `is_time_up` returns true, no further plan is measured if at least one
// has been. Code::kDevice as for choose_plan, and if all plans fail when they are measured.
Result<TimedPlan> choose_fastest_plan(const Device& device, const Descriptor& graph, cudnnDataType_t type,
                                      const PlanOptions& options, const Measure& measure,
                                      const std::function<bool()>& is_time_up);

// Restores a plan from its json(). Code::kData if cuDNN rejects the text (another version, another device, damage).
Result<Plan> load_plan(const Device& device, const std::string& json);

}  // namespace dtrain::cuda
