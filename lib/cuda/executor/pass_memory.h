// What an executor gets from its caller for a pass, on the device: the batch, and the scale of the loss.
#pragma once

#include "cuda/kernels/update.h"
#include "cuda/runtime/memory.h"
#include "exec/executor.h"

namespace dtrain::cuda {

// The images of a batch, numbers or pixels with what makes numbers of them, as kernels/input.h describes them. What is
// of the other form is absent.
struct DeviceImages {
  const float* numbers = nullptr;
  const uint8_t *pixels = nullptr, *mirrored = nullptr;
  const float *mean = nullptr, *mean_image = nullptr, *factor = nullptr;
};

// The batch is copied from where the caller has it, by the device itself where that is pinned memory: the caller keeps
// it until `await` has returned. From other memory the driver copies it first, which takes the time of the calling
// thread.
class BatchMemory {
 public:
  // As the options say: of their batch size, images and normalisation, which is there when this returns.
  explicit BatchMemory(const exec::Options& options);

  // Queues the copies of a batch that fits the options. Labels may be missing.
  void stage(const Batch& batch, cudaStream_t stream);
  // Until they are over.
  void await() const;

  [[nodiscard]] DeviceImages images() const;
  [[nodiscard]] const float* labels() const { return static_cast<const float*>(labels_.at(0)); }
  [[nodiscard]] size_t bytes() const;

 private:
  bool of_pixels_;
  DeviceMemory images_, mirrored_, labels_;
  DeviceMemory mean_, mean_image_, factor_;
  CudaEvent copied_;
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
