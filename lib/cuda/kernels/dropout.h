// Drops elements at random. kernels/tensor.h has the conventions of all kernels.
#pragma once

#include "cuda/kernels/tensor.h"

namespace dtrain::cuda {

// y = 0 for the elements that the rule (exec::DropRule) drops, and factor * x for the others. With dy and dx in place
// of x and y, it is the backward pass. The random numbers are those of exec/dropout.h, which this directory does not
// include.
//   x, y [rows, channels], where each image has `positions` rows; y may be x
//   keys: a number for each image
// Bytes: 2 * rows * channels * bytes_of(type).
struct KeepElements {
  Type type = Type::kFloat32;
  int64_t rows = 0, channels = 0, positions = 1;
  uint64_t node = 0;  // from exec::DropRule, like the next two members
  uint32_t threshold = 0;
  float factor = 1;
  const uint64_t* keys = nullptr;
  In x = {};
  Out y = {};
};
void keep_elements(const KeepElements& keep, cudaStream_t stream);

}  // namespace dtrain::cuda
