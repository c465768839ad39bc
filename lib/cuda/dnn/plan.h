// A plan: one engine of cuDNN with its settings, compiled for one operation graph and one device. How it is chosen:
// the configurations that cuDNN's heuristics list (mode A, then its fallback) in their order, less what the options
// rule out; the first that finalises within the workspace wins. Nothing is timed.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn_graph.h>

#include <cstddef>
#include <cstdint>
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
  bool winograd = false;            // engines that trade exactness for fewer products
  bool reduced_sums = false;        // engines that sum in less than float32: the special ones of 7x7 stems do
  bool deterministic = false;       // only engines that cuDNN does not call non-deterministic
  bool compile_at_run_time = true;  // where nothing else exists, engines that the driver of the device compiles

  [[nodiscard]] std::string key() const;  // a stored plan was chosen under these
};

// Where one tensor of a plan lies on the device, aligned to OperationGraph::kAlignment.
struct Binding {
  Slot slot;
  void* pointer;
};

// A plan with its pointers. Outlived by its plan. Allocates nothing to run; may be captured in a CUDA graph.
class BoundPlan {
 public:
  // Enqueues the work. The handle is one of the plan's device; its stream becomes `stream`. DeviceError.
  void run(cudnnHandle_t handle, cudaStream_t stream) const;

 private:
  friend class Plan;
  BoundPlan(const Descriptor& plan, Descriptor pack) : plan_(plan.get()), pack_(std::move(pack)) {}
  cudnnBackendDescriptor_t plan_;
  Descriptor pack_;
};

class Plan {
 public:
  // Device memory that a run needs besides the tensors; content does not matter before or after.
  [[nodiscard]] size_t workspace_bytes() const { return workspace_bytes_; }
  [[nodiscard]] int64_t engine() const { return engine_; }
  // "eng53_k2=28_k27=1": the engine and its knobs (cudnnBackendKnobType_t) as choices, in cuDNN's order.
  [[nodiscard]] const std::string& tag() const { return tag_; }
  // The engine brings no code of its own: the driver compiles it when the plan is finalised.
  [[nodiscard]] bool compiled_at_run_time() const { return compiled_at_run_time_; }
  // cuDNN's text form of the plan: load_plan makes it again without asking the heuristics.
  [[nodiscard]] std::string json() const;

  // One pointer for each slot of the graph; workspace_bytes() at `workspace`.
  [[nodiscard]] BoundPlan bind(std::span<const Binding> bindings, void* workspace) const;
  // bind and run. Allocates on the host: for what runs once.
  void execute(cudnnHandle_t handle, std::span<const Binding> bindings, void* workspace, cudaStream_t stream) const;

 private:
  friend Result<Plan> choose_plan(const Device&, const Descriptor&, cudnnDataType_t, const PlanOptions&);
  friend Result<Plan> load_plan(const Device&, const std::string&);
  explicit Plan(Descriptor plan);

  Descriptor plan_;
  size_t workspace_bytes_ = 0;
  int64_t engine_ = 0;
  std::string tag_;
  bool compiled_at_run_time_ = false;
};

// type: of the tensors that are multiplied. Code::kDevice if no engine can run the graph on this device under these
// options: the message counts why.
Result<Plan> choose_plan(const Device& device, const Descriptor& graph, cudnnDataType_t type,
                         const PlanOptions& options);

// The plan that json() described. Code::kData if cuDNN does not take it: another version, another device, damage.
Result<Plan> load_plan(const Device& device, const std::string& json);

}  // namespace dtrain::cuda
