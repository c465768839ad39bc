#include "cuda/dnn/descriptor.h"

#include <fmt/core.h>

#include <algorithm>

namespace dtrain::cuda {

namespace {

// Throws DeviceError if the call has failed. The error shows the attribute as a number; cudnn_graph.h lists the names.
void check(cudnnStatus_t status, const char* call, cudnnBackendAttributeName_t name) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw DeviceError(fmt::format("{} of attribute {}: {}", call, static_cast<int>(name), cudnn_reason(status)));
}

cudnnBackendDescriptor_t create(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t raw = nullptr;
  DT_CUDNN(cudnnBackendCreateDescriptor(type, &raw));
  return raw;
}

std::vector<cudnnBackendDescriptor_t> raw_of(std::span<const Descriptor> descriptors) {
  std::vector<cudnnBackendDescriptor_t> raw;
  raw.reserve(descriptors.size());
  for (const Descriptor& descriptor : descriptors) raw.push_back(descriptor.get());
  return raw;
}

}  // namespace

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) : raw_(create(type)) {}

void Descriptor::set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t count,
                         const void* values) {
  check(cudnnBackendSetAttribute(raw_.get(), name, type, static_cast<int64_t>(count), values), "setting", name);
}

int64_t Descriptor::get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t count,
                            void* values) const {
  int64_t present = 0;
  check(cudnnBackendGetAttribute(raw_.get(), name, type, static_cast<int64_t>(count), &present, values), "reading",
        name);
  return present;
}

void Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  const cudnnBackendDescriptor_t raw = value.get();
  set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
}

void Descriptor::set_all(cudnnBackendAttributeName_t name, std::span<const Descriptor> values) {
  const std::vector<cudnnBackendDescriptor_t> raw = raw_of(values);
  set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.size(), raw.data());
}

void Descriptor::finalize() {
  DT_CUDNN(cudnnBackendFinalize(raw_.get()));
}

std::optional<std::string> Descriptor::try_finalize() {
  const cudnnStatus_t status = cudnnBackendFinalize(raw_.get());
  if (status == CUDNN_STATUS_SUCCESS) return std::nullopt;
  return cudnn_reason(status);
}

std::string Descriptor::get_text(cudnnBackendAttributeName_t name) const {
  const std::vector<char> text = get_all<char>(name);
  return {text.begin(), text.end()};
}

Descriptor Descriptor::get_descriptor(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type) const {
  Descriptor value(type);
  cudnnBackendDescriptor_t raw = value.get();
  get_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  return value;
}

int64_t Descriptor::count_descriptors(cudnnBackendAttributeName_t name) const {
  return get_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
}

std::vector<Descriptor> Descriptor::get_descriptors(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                                    int64_t count) const {
  std::vector<Descriptor> values;
  for (int64_t i = 0; i < count; i++) values.emplace_back(type);
  std::vector<cudnnBackendDescriptor_t> raw = raw_of(values);
  const int64_t present = raw.empty() ? 0 : get_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.size(), raw.data());
  values.erase(values.begin() + std::min(present, count), values.end());
  return values;
}

}  // namespace dtrain::cuda
