#include "cuda/dnn/device.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace dtrain::cuda {

namespace {

// A number in the device description; 0 if the name is missing.
int64_t number(const nlohmann::json& description, const char* name) {
  const auto found = description.find(name);
  return found != description.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

std::string identity_of(const std::string& json) {
  const nlohmann::json description = nlohmann::json::parse(json, nullptr, false);
  if (!description.is_object()) return fmt::format("an unknown device, cuDNN {}", cudnn_version_text());
  const auto name = description.find("deviceName");
  const int64_t driver = number(description, "driverVer");
  return fmt::format("{}, sm_{}, {} SMs, driver {}.{}, cuDNN {}",
                     name != description.end() && name->is_string() ? name->get<std::string>() : "unnamed device",
                     number(description, "deviceVer") / 10, number(description, "multiProcessorCount"), driver / 1000,
                     driver % 1000 / 10, cudnn_version_text());
}

}  // namespace

std::string cudnn_version_text() {
  const size_t version = cudnnGetVersion();  // for example 91900 for 9.19.0
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Device::Device(cudnnHandle_t handle, Descriptor properties, std::string json)
    : handle_(handle),
      properties_(std::make_shared<const Descriptor>(std::move(properties))),
      json_(std::move(json)),
      identity_(identity_of(json_)) {}

Result<Device> Device::of(cudnnHandle_t handle) {
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set(CUDNN_ATTR_DEVICEPROP_HANDLE, handle);
  if (const auto refusal = properties.try_finalize()) {
    return fail(Code::kDevice, "cuDNN {} cannot describe the device: {}", cudnn_version_text(), *refusal);
  }
  std::string json = properties.get_text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
  return Device(handle, std::move(properties), std::move(json));
}

Result<Device> Device::described(const std::string& json) {
  // cuDNN 9.19 reads fields without checking that they exist, so only a complete object may reach it.
  if (!nlohmann::json::parse(json, nullptr, false).is_object()) {
    return fail(Code::kUsage, "the description of the device is not a JSON object");
  }
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  try {
    properties.set_text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json);
  } catch (const DeviceError& refusal) {
    return fail(Code::kUsage, "cuDNN {} rejects the description of the device: {}", cudnn_version_text(),
                refusal.what());
  }
  if (const auto refusal = properties.try_finalize()) {
    return fail(Code::kUsage, "cuDNN {} rejects the description of the device: {}", cudnn_version_text(), *refusal);
  }
  return Device(nullptr, std::move(properties), json);
}

void Device::bind_graph(Descriptor& operation_graph) const {
  if (handle_ != nullptr) operation_graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle_);
}

void Device::bind_heuristics(Descriptor& heuristics) const {
  if (handle_ == nullptr) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *properties_);
}

void Device::bind_stored_plan(Descriptor& plan) const {
  if (handle_ != nullptr) {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle_);
  } else {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *properties_);
  }
}

}  // namespace dtrain::cuda
