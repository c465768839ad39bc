// An owning wrapper of a descriptor of cuDNN's backend API. Attributes are set and read by C++ type instead of by four
// arguments that must agree. If cuDNN rejects a call, DeviceError is thrown, except by functions that return the
// rejection.
//
// A descriptor to which other descriptors refer must live until those are finalized; cuDNN copies it at that time.
#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/runtime/cudnn_error.h"

namespace dtrain::cuda {

// Maps a C++ type to the type of an attribute. cudnnBackendDescriptor_t is void*, so descriptors have separate
// functions, and void* here means a pointer to device memory.
template <class T>
struct AttributeType;
template <cudnnBackendAttributeType_t kType>
struct AttributeTypeIs {
  static constexpr cudnnBackendAttributeType_t value = kType;
};
template <>
struct AttributeType<int64_t> : AttributeTypeIs<CUDNN_TYPE_INT64> {};
template <>
struct AttributeType<float> : AttributeTypeIs<CUDNN_TYPE_FLOAT> {};
template <>
struct AttributeType<bool> : AttributeTypeIs<CUDNN_TYPE_BOOLEAN> {};
template <>
struct AttributeType<char> : AttributeTypeIs<CUDNN_TYPE_CHAR> {};
template <>
struct AttributeType<void*> : AttributeTypeIs<CUDNN_TYPE_VOID_PTR> {};
template <>
struct AttributeType<cudnnHandle_t> : AttributeTypeIs<CUDNN_TYPE_HANDLE> {};
template <>
struct AttributeType<cudnnDataType_t> : AttributeTypeIs<CUDNN_TYPE_DATA_TYPE> {};
template <>
struct AttributeType<cudnnConvolutionMode_t> : AttributeTypeIs<CUDNN_TYPE_CONVOLUTION_MODE> {};
template <>
struct AttributeType<cudnnPointwiseMode_t> : AttributeTypeIs<CUDNN_TYPE_POINTWISE_MODE> {};
template <>
struct AttributeType<cudnnGenStatsMode_t> : AttributeTypeIs<CUDNN_TYPE_GENSTATS_MODE> {};
template <>
struct AttributeType<cudnnBackendHeurMode_t> : AttributeTypeIs<CUDNN_TYPE_HEUR_MODE> {};
template <>
struct AttributeType<cudnnBackendKnobType_t> : AttributeTypeIs<CUDNN_TYPE_KNOB_TYPE> {};
template <>
struct AttributeType<cudnnBackendNumericalNote_t> : AttributeTypeIs<CUDNN_TYPE_NUMERICAL_NOTE> {};
template <>
struct AttributeType<cudnnBackendBehaviorNote_t> : AttributeTypeIs<CUDNN_TYPE_BEHAVIOR_NOTE> {};

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);

  template <class T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    set_all(name, std::span<const T>(&value, 1));
  }
  template <class T>
  void set_all(cudnnBackendAttributeName_t name, std::span<const T> values) {
    set_raw(name, AttributeType<T>::value, values.size(), values.data());
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value);
  void set_all(cudnnBackendAttributeName_t name, std::span<const Descriptor> values);
  void set_text(cudnnBackendAttributeName_t name, std::string_view value) {
    set_all(name, std::span<const char>(value.data(), value.size()));
  }

  void finalize();
  // For descriptors that cuDNN may reject: returns nullopt on success, else the reason.
  [[nodiscard]] std::optional<std::string> try_finalize();

  template <class T>
  [[nodiscard]] T get(cudnnBackendAttributeName_t name) const {
    T value{};
    get_raw(name, AttributeType<T>::value, 1, &value);
    return value;
  }
  // Returns all elements. T must not be bool, because std::vector<bool> has no addressable elements.
  template <class T>
  [[nodiscard]] std::vector<T> get_all(cudnnBackendAttributeName_t name) const {
    std::vector<T> values(static_cast<size_t>(get_raw(name, AttributeType<T>::value, 0, nullptr)));
    if (values.empty()) return values;
    values.resize(static_cast<size_t>(get_raw(name, AttributeType<T>::value, values.size(), values.data())));
    return values;
  }
  [[nodiscard]] std::string get_text(cudnnBackendAttributeName_t name) const;
  // Returns the descriptors in an attribute: exactly one, or up to `count`. `type` must be the type that the attribute
  // holds.
  [[nodiscard]] Descriptor get_descriptor(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type) const;
  [[nodiscard]] std::vector<Descriptor> get_descriptors(cudnnBackendAttributeName_t name,
                                                        cudnnBackendDescriptorType_t type, int64_t count) const;
  // The number of descriptors, or 0 for an attribute that does not report it (cuDNN 9.19: knob choices).
  [[nodiscard]] int64_t count_descriptors(cudnnBackendAttributeName_t name) const;

  [[nodiscard]] cudnnBackendDescriptor_t get() const { return raw_.get(); }

 private:
  struct Destroy {
    void operator()(void* raw) const { cudnnBackendDestroyDescriptor(raw); }  // fails only if `raw` is not a descriptor
  };
  void set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t count, const void* values);
  // Reads up to `count` elements and returns how many the attribute has.
  int64_t get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t count, void* values) const;

  std::unique_ptr<void, Destroy> raw_;
};

}  // namespace dtrain::cuda
