// The device memory for the data that the caller passes to a pass: the batch and the loss scale.
#pragma once

#include <vector>

#include "cuda/kernels/update.h"
#include "cuda/runtime/memory.h"
#include "exec/executor.h"

namespace dtrain::cuda {

// An input of a batch, either as floats or as pixels with their normalization; see kernels/input.h. The pointers of the
// other form are null.
struct DeviceInput {
  const float* floats = nullptr;
  const uint8_t *pixels = nullptr, *mirrored = nullptr;
  const float *mean = nullptr, *mean_image = nullptr, *factor = nullptr;
};

// The memory of batches. A batch is copied from the caller's memory. If that memory is pinned, the device copies it,
// and the caller must not change it until `await` has returned. Otherwise the driver first copies it in the calling
// thread, which takes time in that thread.
//
// With `ahead`, the next batch is copied into a staging buffer while the previous step still reads its own batch. From
// there it is copied within the device to where the program reads it; this copy takes a thousandth of a step.
class BatchMemory {
 public:
  // Allocates memory for the batch size and the inputs of the options, and for `labels` labels per example. The inputs'
  // normalizations are on the device when the constructor returns. with_keys: whether the batches have keys.
  BatchMemory(const exec::Options& options, size_t labels, bool ahead, bool with_keys);

  // Queues the copies of a batch that fits the options. Labels may be missing. With Options::same_batch only the first
  // call copies inputs and labels.
  void stage(const Batch& batch, cudaStream_t stream);
  // With `ahead`: queues the copy from the staging buffer to where the program reads. Otherwise does nothing.
  void take(cudaStream_t stream);
  // Waits until the copies queued by `stage` are complete.
  void await() const;

  [[nodiscard]] std::vector<DeviceInput> inputs() const;
  // Returns [n, labels].
  [[nodiscard]] const float* labels() const { return static_cast<const float*>(current_.labels.at(0)); }
  [[nodiscard]] const uint64_t* keys() const;  // null without keys
  [[nodiscard]] size_t bytes() const;

 private:
  struct InputPlace {
    DeviceMemory values, mirrored;
  };
  struct Place {
    std::vector<InputPlace> inputs;
    DeviceMemory labels, keys;
  };
  struct InputTables {
    bool of_pixels = false;
    DeviceMemory mean, mean_image, factor;
  };
  static Place place_for(const exec::Options& options, size_t labels, bool with_keys);

  bool ahead_;
  bool same_batch_, is_there_ = false;
  Place current_;                    // the batch that the program reads
  Place next_;                       // the staging buffer, with the next batch; used only with `ahead_`
  std::vector<InputTables> tables_;  // indexed by input
  CudaEvent copied_;
};

// Two LossScale structs of kernels/update.h: one for the gradients of this device's passes, with the scale that the
// host requests, and one for the sums that a store computes from these gradients, with scale 1. Used by one thread. A
// requested scale takes effect with the next upload.
class LossScaleMemory {
 public:
  LossScaleMemory();

  void set(double scale) { scale_ = scale; }
  void set_good_steps(uint32_t steps) { good_steps_ = steps; }
  [[nodiscard]] double scale() const { return scale_; }
  [[nodiscard]] LossScale* device() const { return static_cast<LossScale*>(device_.at(0)); }
  [[nodiscard]] LossScale* of_sums() const { return device() + 1; }
  // upload queues a copy of the requested scale to the device and resets the nonfinite flag of the gradients, but not
  // that of the sums. download queues a copy of both structs to the host. The previous upload and download must be
  // complete.
  void upload(cudaStream_t stream);
  void download(cudaStream_t stream);
  // If the device adjusts the scale itself: whether the requested scale differs from the last downloaded one.
  [[nodiscard]] bool differs() const {
    return requested().scale != host()[1].scale || good_steps_ != host()[1].good_steps;
  }
  // mark_sums queues a copy of the gradients' nonfinite flag to the sums' flag; clear_sums queues a reset of the sums'
  // flag.
  void mark_sums(cudaStream_t stream);
  void clear_sums(cudaStream_t stream);
  // Valid once the download is complete.
  [[nodiscard]] uint64_t skipped() const { return host()[1].skipped; }
  [[nodiscard]] bool nonfinite() const { return host()[1].nonfinite != 0; }
  [[nodiscard]] bool nonfinite_sums() const { return host()[2].nonfinite != 0; }

 private:
  [[nodiscard]] LossScale requested() const;
  [[nodiscard]] LossScale* host() const { return static_cast<LossScale*>(host_.data()); }

  double scale_ = 1;
  uint32_t good_steps_ = 0;
  PinnedMemory host_;  // [0] is uploaded, [1] and [2] are downloaded
  DeviceMemory device_;
};

}  // namespace dtrain::cuda
