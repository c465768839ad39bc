// The learned tensors of a network: on the host, in pinned memory, and on a device, both in canonical form and in the
// form that the network computes with.
//
// Either the host's or the device's copy is authoritative. If it is the host's, weights are copied to the device for a
// pass, and gradients are copied back after it, interval by interval; so every store that works on host memory also
// works with devices. The moving statistics are copied only if the other side has changed them: training changes them
// on the device in each step, and the host rarely needs them. If it is the device's copy
// (Options::parameters_on_device), a store works on device_view(). An executor shares this object with the executors
// made from it with weights_of; only one of them runs at a time.
#pragma once

#include <memory>
#include <vector>

#include "cuda/executor/device_table.h"
#include "cuda/executor/layout.h"
#include "cuda/kernels/layout.h"
#include "exec/parameter_store.h"

namespace dtrain::cuda {

// Describes a tensor with canonical values at `canonical` and values in the form `form` at `stored`, for the kernels
// that convert one into the other.
WeightTensor weight_tensor(const WeightForm& form, float* canonical, void* stored);

class DeviceParameters {
 public:
  // forms: the form of each parameter (Layout::weights). With kImagined memory, the object is only for asking for sizes
  // and addresses.
  enum class Memory { kReal, kImagined };
  DeviceParameters(const graph::Shapes& shapes, exec::Options::Purpose purpose, std::vector<WeightForm> forms,
                   Memory memory = Memory::kReal);

  [[nodiscard]] const exec::ParameterStore& host() const { return host_; }
  [[nodiscard]] const WeightForm& form(size_t parameter) const { return forms_[parameter]; }

  // All statistics on the device.
  [[nodiscard]] DeviceMemory& statistics() { return statistics_; }
  // Device pointers to the canonical float32 tensors, at the same offsets as on the host. Gradients exist only for
  // training.
  [[nodiscard]] float* weight(size_t parameter) const { return weights_at(place_of(parameter)); }
  [[nodiscard]] float* gradient(size_t parameter) const;
  [[nodiscard]] float* statistic(size_t index) const;
  // Sizes of the canonical tensors, in bytes. A gradient has the size of its weight.
  [[nodiscard]] size_t weight_bytes(size_t parameter) const {
    return host_.view().parameters[parameter].weight.size_bytes();
  }
  [[nodiscard]] size_t statistic_bytes(size_t index) const {
    return host_.view().statistics[index].weight.size_bytes();
  }
  // The tensor in the form that the network computes with. If that form is the canonical one, this is the canonical
  // tensor itself.
  [[nodiscard]] void* stored(size_t parameter) const;
  // Like the view of host(), but with pointers into device memory. `arrays` copies between the host's memory and the
  // device's.
  [[nodiscard]] ParameterView device_view(DeviceArrays* arrays) const;
  // The gradients of the parameters [first, end) as one contiguous array; the gaps between them are zero.
  struct Piece {
    float* data = nullptr;
    int64_t count = 0;
  };
  [[nodiscard]] Piece gradients(size_t first, size_t end) const;

  // The table for the kernel that converts the parameters [first, end) to their stored forms.
  [[nodiscard]] DeviceTable<WeightTensor> store_table(size_t first, size_t end) const;

  // These functions order the passes of executors that share the tensors: work queued after begin_use waits for the
  // work queued before the last end_use, even if they use different streams.
  void begin_use(cudaStream_t stream) const;
  void end_use(cudaStream_t stream) const;

  // These functions queue copies: of the weights of [first, end) to the device, of their gradients to the host, and of
  // all statistics.
  void upload_weights(size_t first, size_t end, cudaStream_t stream) const;
  void download_gradients(size_t first, size_t end, cudaStream_t stream) const;
  void upload_statistics(cudaStream_t stream) const;
  void download_statistics(cudaStream_t stream) const;
  // If the host's copy is authoritative: whether the device has changed the statistics since the host last had them, so
  // that they must not be replaced by those of the host.
  [[nodiscard]] bool has_newer_statistics() const { return has_newer_statistics_; }
  void set_newer_statistics(bool are_newer) { has_newer_statistics_ = are_newer; }

  // The size of the stored forms, which the device holds in addition to the canonical tensors, and the size of all.
  [[nodiscard]] size_t stored_bytes() const { return stored_.bytes(); }
  [[nodiscard]] size_t bytes() const {
    return weights_.bytes() + gradients_.bytes() + statistics_.bytes() + stored_.bytes();
  }

 private:
  [[nodiscard]] size_t place_of(size_t parameter) const;
  [[nodiscard]] float* weights_at(size_t place) const { return static_cast<float*>(weights_.at(0)) + place; }

  exec::ParameterStore host_;
  std::vector<WeightForm> forms_;
  DeviceMemory weights_, gradients_, statistics_, stored_;
  bool has_newer_statistics_ = false;
  CudaEvent used_;
  // Indexed by parameter: offset in stored_, in bytes. Used only for parameters whose form is not canonical.
  std::vector<size_t> stored_offset_;
};

}  // namespace dtrain::cuda
