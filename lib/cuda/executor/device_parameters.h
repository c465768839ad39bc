// The learned tensors of a network: on the host, pinned, as everybody sees them; and on a device, in canonical form and
// in the form that the network computes with.
//
// One of the two is the truth. The host's: weights and statistics are copied to the device for a pass, gradients and
// statistics back after it, interval by interval, so that every store that works on the host's memory works with
// devices. Or the device's (exec's parameters_on_device), where a store works on device_view(). One executor owns it
// together with those that were made with weights_of; one of them runs at a time.
#pragma once

#include <memory>
#include <vector>

#include "cuda/executor/device_table.h"
#include "cuda/executor/layout.h"
#include "cuda/kernels/layout.h"
#include "exec/parameter_store.h"

namespace dtrain::cuda {

// The two forms of a tensor for the kernels that convert it.
WeightTensor weight_tensor(const WeightForm& form, float* canonical, void* stored);

class DeviceParameters {
 public:
  // forms: Layout's.
  DeviceParameters(const graph::Shapes& shapes, exec::Options::Purpose purpose, std::vector<WeightForm> forms);

  [[nodiscard]] const exec::ParameterStore& host() const { return host_; }
  [[nodiscard]] const WeightForm& form(size_t parameter) const { return forms_[parameter]; }

  // On the device. The canonical float32 tensors, at the host's places: their gradients only if the purpose is
  // training.
  [[nodiscard]] float* weight(size_t parameter) const { return weights_at(place_of(parameter)); }
  [[nodiscard]] float* gradient(size_t parameter) const;
  [[nodiscard]] float* statistic(size_t index) const;
  // Of the canonical tensors, and of their gradients.
  [[nodiscard]] size_t weight_bytes(size_t parameter) const {
    return host_.view().parameters[parameter].weight.size_bytes();
  }
  [[nodiscard]] size_t statistic_bytes(size_t index) const {
    return host_.view().statistics[index].weight.size_bytes();
  }
  // What the network computes with: the canonical tensor where its form is that.
  [[nodiscard]] void* stored(size_t parameter) const;
  // The host's view, of the device's memory. `arrays`: who copies.
  [[nodiscard]] ParameterView device_view(DeviceArrays* arrays) const;
  // The gradients of the parameters [first, end) in one piece; what lies between them is zero.
  struct Piece {
    float* data = nullptr;
    int64_t count = 0;
  };
  [[nodiscard]] Piece gradients(size_t first, size_t end) const;

  // What makes the stored forms of the parameters [first, end).
  [[nodiscard]] DeviceTable<WeightTensor> store_table(size_t first, size_t end) const;

  // Executors that share the tensors queue a pass one after the other: what is queued behind begin_use waits for what
  // was queued before the last end_use, in whichever stream.
  void begin_use(cudaStream_t stream) const;
  void end_use(cudaStream_t stream) const;

  // Queue copies: of the weights of [first, end) to the device, of their gradients from it, of all statistics.
  void upload_weights(size_t first, size_t end, cudaStream_t stream) const;
  void download_gradients(size_t first, size_t end, cudaStream_t stream) const;
  void upload_statistics(cudaStream_t stream) const;
  void download_statistics(cudaStream_t stream) const;

  // Of the stored forms: what the device holds besides the parameters themselves.
  [[nodiscard]] size_t stored_bytes() const { return stored_.bytes(); }

 private:
  [[nodiscard]] size_t place_of(size_t parameter) const;
  [[nodiscard]] float* weights_at(size_t place) const { return static_cast<float*>(weights_.at(0)) + place; }

  exec::ParameterStore host_;
  std::vector<WeightForm> forms_;
  DeviceMemory weights_, gradients_, statistics_, number_, stored_;
  CudaEvent used_;
  std::vector<size_t> stored_offset_;  // by parameter, in bytes; of use where its form is not the canonical one
};

}  // namespace dtrain::cuda
