// What plans are made for: the device behind a handle, or one that is not here and only described. Both go through the
// same builder (plan.h); a plan for a described device can be made and stored, and not run.
#pragma once

#include <cudnn_graph.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "cuda/dnn/descriptor.h"

namespace dtrain::cuda {

// Immutable; threads may share it.
class Device {
 public:
  // The device that `handle` was made on. The handle stays the caller's and outlives everything made for it.
  static Result<Device> of(cudnnHandle_t handle);
  // json: cuDNN's own description of a device, as json() of the real one prints it. Code::kUsage if cuDNN refuses it.
  static Result<Device> described(const std::string& json);

  // There is a driver, which engines without code of their own need to become plans.
  [[nodiscard]] bool is_here() const { return handle_ != nullptr; }
  // cuDNN's description of the device, whichever way it came here.
  [[nodiscard]] const std::string& json() const { return json_; }
  // "NVIDIA H200, sm_90, 132 SMs, driver 13.0, cuDNN 9.19.0": two devices with this text get the same plans.
  [[nodiscard]] const std::string& identity() const { return identity_; }

  // What tells cuDNN's descriptors about the device, while they are not yet finalised. A real device is known to the
  // operation graph by its handle; a described one to the heuristics and the engines by its properties.
  void bind_graph(Descriptor& operation_graph) const;
  void bind_heuristics(Descriptor& heuristics) const;
  void bind_stored_plan(Descriptor& plan) const;

 private:
  Device(cudnnHandle_t handle, Descriptor properties, std::string json);

  cudnnHandle_t handle_;  // null: described
  std::shared_ptr<const Descriptor> properties_;
  std::string json_;
  std::string identity_;
};

// "9.19.0": the library that is loaded, which need not be the one whose headers were compiled.
std::string cudnn_version_text();

}  // namespace dtrain::cuda
