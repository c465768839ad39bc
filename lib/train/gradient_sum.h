// The sum of the gradients of several steps of a worker, which then counts as one step (--elastic-batch keep). Each
// device has a sum of its own, in the host's memory. take() and add_to() are called by each device's own thread,
// everything else between steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/parameters.h"

namespace dtrain::train {

// Has no memory until take() is called.
class GradientSum {
 public:
  explicit GradientSum(size_t devices) : of_device_(devices) {}

  // Adds the gradients of the parameters [begin, end) to the device's sum. All of a step must be taken before count().
  void take(size_t device, const ParameterView& view, size_t begin, size_t end);
  // Adds the device's sum to the gradients of these parameters.
  void add_to(size_t device, const ParameterView& view, size_t begin, size_t end) const;

  // The samples of the steps in the sum, over all devices; 0: there are none.
  [[nodiscard]] uint32_t samples() const { return samples_; }
  void count(uint32_t samples) { samples_ += samples; }
  void clear() { samples_ = 0; }

 private:
  std::vector<std::vector<std::vector<float>>> of_device_;  // by device and parameter
  uint32_t samples_ = 0;
};

}  // namespace dtrain::train
