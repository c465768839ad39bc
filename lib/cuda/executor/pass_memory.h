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
//
// With `ahead`, a batch is copied to a place of its own beside the step that still reads the last one, and comes from
// there to where the program reads it within the device, which takes a thousandth of a step.
class BatchMemory {
 public:
  // As the options say: of their batch size, images and normalisation, which is there when this returns.
  BatchMemory(const exec::Options& options, bool ahead);

  // Queues the copies of a batch that fits the options. Labels may be missing.
  void stage(const Batch& batch, cudaStream_t stream);
  // With `ahead`: queues the copy from there to where the program reads. Otherwise the batch is there already.
  void take(cudaStream_t stream);
  // Until they are over.
  void await() const;

  [[nodiscard]] DeviceImages images() const;
  [[nodiscard]] const float* labels() const { return static_cast<const float*>(current_.labels.at(0)); }
  [[nodiscard]] size_t bytes() const;

 private:
  struct Place {
    DeviceMemory images, mirrored, labels;
    Place() = default;
    Place(size_t image_bytes, size_t mirrored_bytes, size_t label_bytes)
        : images(image_bytes), mirrored(mirrored_bytes), labels(label_bytes) {}
  };

  bool of_pixels_, ahead_;
  Place current_;  // what the program reads
  Place next_;     // with `ahead`
  DeviceMemory mean_, mean_image_, factor_;
  CudaEvent copied_;
};

// kernels/update.h's LossScale, twice: for the gradients of this device's passes, with the host's wish; and for the
// sums that a store makes of them, whose scale is 1. One thread; a wish counts from the next upload.
class LossScaleMemory {
 public:
  LossScaleMemory();

  void set(double scale) { scale_ = scale; }
  void set_good_steps(uint32_t steps) { good_steps_ = steps; }
  [[nodiscard]] double scale() const { return scale_; }
  [[nodiscard]] LossScale* device() const { return static_cast<LossScale*>(device_.at(0)); }
  [[nodiscard]] LossScale* of_sums() const { return device() + 1; }
  // Queue: the scale to the device, all gradients finite so far, while the sums keep what was found of them; what was
  // found back to the host. The last upload and download are over.
  void upload(cudaStream_t stream);
  void download(cudaStream_t stream);
  // Where the device moves the scale by itself: whether the wish is another than what the last download brought.
  [[nodiscard]] bool differs() const {
    return wished().scale != host()[1].scale || good_steps_ != host()[1].good_steps;
  }
  // Queue: the sums are not finite if the gradients of this device's passes are not; the sums are finite.
  void mark_sums(cudaStream_t stream);
  void clear_sums(cudaStream_t stream);
  // Once the download is over.
  [[nodiscard]] uint64_t skipped() const { return host()[1].skipped; }
  [[nodiscard]] bool nonfinite() const { return host()[1].nonfinite != 0; }
  [[nodiscard]] bool nonfinite_sums() const { return host()[2].nonfinite != 0; }

 private:
  [[nodiscard]] LossScale wished() const;
  [[nodiscard]] LossScale* host() const { return static_cast<LossScale*>(host_.data()); }

  double scale_ = 1;
  uint32_t good_steps_ = 0;
  PinnedMemory host_;  // [0] goes up, the others come down
  DeviceMemory device_;
};

}  // namespace dtrain::cuda
