// The device memory for the data that the caller passes to a pass: the batch and the loss scale.
#pragma once

#include <vector>

#include "cuda/kernels/update.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/store_stream.h"
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
// and the caller must not change it until `copied` has occurred. Otherwise the driver first copies it in the calling
// thread, which takes time in that thread.
//
// If the constructor is called with `ahead`, the next batch is copied into a staging buffer while the previous step
// still reads its own batch. From there it is copied within the device to where the program reads it; this copy takes a
// thousandth of a step.
class BatchMemory {
 public:
  // Allocates memory for the batch size and the inputs of the options, and for `labels` labels per example. The inputs'
  // normalizations are on the device when the constructor returns. with_keys: whether the batches have keys.
  BatchMemory(const exec::Options& options, size_t labels, bool ahead, bool with_keys);

  // Queues the copies of a batch that fits the options. Labels may be missing. With Options::same_batch only the first
  // call copies inputs and labels.
  void stage(const Batch& batch, cudaStream_t stream);
  // If the constructor was called with `ahead`, queues the copy from the staging buffer to where the program reads.
  // Otherwise does nothing.
  void take(cudaStream_t stream);
  // The event that occurs when the copies that stage() queued are complete.
  [[nodiscard]] cudaEvent_t copied() const { return copied_.get(); }

  [[nodiscard]] std::vector<DeviceInput> inputs() const;
  // The labels of the batch, in device memory: [n, labels].
  [[nodiscard]] const float* labels() const { return static_cast<const float*>(current_.labels.at(0)); }
  [[nodiscard]] const uint64_t* keys() const;  // null if batches have no keys
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

// A LossScale of kernels/update.h, and the host's copies of it: one for each turn (StoreStream::turn), because the
// device may write that of a step while the host still reads that of the step before. Used by one thread.
class LossScaleMemory {
 public:
  LossScaleMemory();

  // Requests a state, which takes effect with the next upload.
  void set(const optim::LossScaleState& state) { requested_ = state; }
  // The state on the device, or the one that was requested since the last upload.
  [[nodiscard]] const optim::LossScaleState& state() const { return requested_; }
  [[nodiscard]] LossScale* device() const { return static_cast<LossScale*>(device_.at(0)); }
  // Queues a copy of a newly requested state to the device; does nothing if there is none. The previous upload must be
  // complete.
  void upload(cudaStream_t stream);
  // Queues a copy of the whole struct to the host's copy of this turn. take_download reads it, once it is complete.
  void download(size_t turn, cudaStream_t stream);
  void take_download(size_t turn);
  // The struct as of the last take_download().
  [[nodiscard]] const LossScale& downloaded() const { return host()[1 + taken_]; }

 private:
  [[nodiscard]] LossScale* host() const { return static_cast<LossScale*>(host_.data()); }

  optim::LossScaleState requested_{1, 0}, on_device_{1, 0};
  PinnedMemory host_;  // LossScales: [0] is copied to the device, [1 + turn] from the device
  size_t taken_ = 0;   // the turn of the last take_download()
  DeviceMemory device_;
};

}  // namespace dtrain::cuda
