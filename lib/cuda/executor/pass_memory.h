// The caller's batch on its way to the device, and the scale of the loss. The batch is only lent for the forward pass:
// its numbers are copied into pinned memory, of which there are two, so that filling one does not wait for the other's
// copy to the device.
#pragma once

#include <array>

#include "cuda/kernels/update.h"
#include "cuda/runtime/memory.h"
#include "exec/executor.h"

namespace dtrain::cuda {

class BatchMemory {
 public:
  // `images` numbers, and `labels` of them.
  BatchMemory(size_t images, size_t labels);

  // Copies the batch; queues its copy to the device. Labels may be missing.
  void stage(const exec::Batch& batch, cudaStream_t stream);
  [[nodiscard]] const float* images() const { return static_cast<const float*>(device_.at(0)); }
  [[nodiscard]] const float* labels() const { return images() + labels_at_; }
  [[nodiscard]] size_t bytes() const { return device_.bytes(); }

 private:
  struct Slot {
    PinnedMemory memory;
    CudaEvent copied;
  };
  size_t labels_at_;  // the place of the labels behind the images, aligned
  std::array<Slot, 2> slots_;
  size_t next_ = 0;
  DeviceMemory device_;
};

// kernels/update.h's LossScale, twice: for the gradients of this device's passes, with the host's wish; and for the
// sums that a store makes of them, whose scale is 1. One thread; a wish counts from the next upload.
class LossScaleMemory {
 public:
  LossScaleMemory();

  void set(double scale) { scale_ = scale; }
  [[nodiscard]] double scale() const { return scale_; }
  [[nodiscard]] LossScale* device() const { return static_cast<LossScale*>(device_.at(0)); }
  [[nodiscard]] LossScale* of_sums() const { return device() + 1; }
  // Queue: the scale to the device, all gradients finite so far, while the sums keep what was found of them; what was
  // found back to the host. The last upload and download are over.
  void upload(cudaStream_t stream);
  void download(cudaStream_t stream);
  // Once the download is over.
  [[nodiscard]] bool nonfinite() const { return host()[1].nonfinite != 0; }
  [[nodiscard]] bool nonfinite_sums() const { return host()[2].nonfinite != 0; }

 private:
  [[nodiscard]] LossScale* host() const { return static_cast<LossScale*>(host_.data()); }

  double scale_ = 1;
  PinnedMemory host_;  // [0] goes up, the others come down
  DeviceMemory device_;
};

}  // namespace dtrain::cuda
