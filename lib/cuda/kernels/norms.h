// The learning rates of arrays by their norms, for rules that use them (optim/norms.h). kernels/tensor.h has the
// conventions of all kernels.
#pragma once

#include "cuda/kernels/update.h"

namespace dtrain::cuda {

// What find_norm_rates needs. It takes the sums in the order of optim::sum_of_squares, so the rates are those of the
// host.
struct NormRates {
  enum class Rule { kLars, kLbsgd };
  Rule rule = Rule::kLars;
  Table<UpdateTensor> table = {};  // whole arrays, in chunks of optim::kNormBlock elements; bytes = norm_bytes
  int64_t tensors = 0;
  const int64_t* first_chunk = nullptr;  // of each tensor, and at the end the number of chunks
  double parameters[2] = {};             // of the rule
  uint64_t accumulated = 0;              // gradients in the sum that slot 1 of the state has; 0: there is none
  const StepScalars* step = nullptr;
  const LossScale* loss_scale = nullptr;  // null: the scale is 1
  double* squares = nullptr;              // of a chunk's weights and gradients, [chunks][2]
  double* rates = nullptr;  // of each tensor; 1 if it does not adapt. Not written if a step does not apply
};
void find_norm_rates(const NormRates& rates, cudaStream_t stream);

// Bytes: weights and gradients, and the sums of gradients.
inline int64_t norm_bytes(std::span<const UpdateTensor> tensors, bool accumulates) {
  int64_t bytes = 0;
  for (const UpdateTensor& t : tensors) bytes += t.count * (4 + bytes_of(t.gradient_type) + (accumulates ? 4 : 0));
  return bytes;
}

}  // namespace dtrain::cuda
