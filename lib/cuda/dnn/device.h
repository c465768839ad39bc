// The device for which plans are made: either the device behind a cuDNN handle, or a device that is absent and only
// described. Both use the same builder (plan.h). A plan for a described device can be made and stored, but not run.
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
  // The device on which `handle` was created. The caller keeps the handle, which must outlive everything that is made
  // for the device.
  static Result<Device> of(cudnnHandle_t handle);
  // json: cuDNN's own description of a device, as json() of a real device returns it. Code::kUsage if cuDNN rejects it.
  static Result<Device> described(const std::string& json);

  // Whether the device is present. Engines without precompiled code need its driver to be compiled into plans.
  [[nodiscard]] bool is_here() const { return handle_ != nullptr; }
  // cuDNN's description of the device, for both kinds of devices.
  [[nodiscard]] const std::string& json() const { return json_; }
  // "NVIDIA H200, sm_90, 132 SMs, driver 13.0, cuDNN 9.19.0". Devices with the same text get the same plans.
  [[nodiscard]] const std::string& identity() const { return identity_; }

  // These functions set the device in a cuDNN descriptor that is not finalized yet. In the operation graph, a real
  // device is set by its handle. In heuristics and engines, a described device is set by its properties.
  void bind_graph(Descriptor& operation_graph) const;
  void bind_heuristics(Descriptor& heuristics) const;
  void bind_stored_plan(Descriptor& plan) const;

 private:
  Device(cudnnHandle_t handle, Descriptor properties, std::string json);

  cudnnHandle_t handle_;  // null for a described device
  std::shared_ptr<const Descriptor> properties_;
  std::string json_;
  std::string identity_;
};

// The version of the loaded library, such as "9.19.0", which may differ from that of the headers.
std::string cudnn_version_text();

}  // namespace dtrain::cuda
