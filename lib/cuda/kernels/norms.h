// Computes the learning rates of arrays from their norms, for rules that use them (optim/norms.h). kernels/tensor.h has
// the conventions of all kernels.
#pragma once

#include "cuda/kernels/update.h"

namespace dtrain::cuda {

// The arguments of find_norm_rates. The kernel sums in the order of optim::sum_of_squares, so the rates equal those
// that the host computes.
struct NormRates {
  enum class Rule { kLars, kLbsgd };
  Rule rule = Rule::kLars;
  Table<UpdateTensor> table = {};  // whole arrays, in chunks of optim::kNormBlock elements; bytes = norm_bytes
  int64_t tensors = 0;
  const int64_t* first_chunk = nullptr;  // first chunk of each tensor, and at the end the number of chunks
  double parameters[2] = {};             // parameters of the rule
  uint64_t accumulated = 0;              // number of gradients in the sum in slot 1 of the state; 0: there is no sum
  StepChoice step = {};
  double* squares = nullptr;  // sums of squares of each chunk's weights and gradients, [chunks][2]
  // Rate of each tensor; 1 if its rate does not adapt; not written in a step that does not apply.
  double* rates = nullptr;
};
void find_norm_rates(const NormRates& rates, cudaStream_t stream);

// Bytes: those of the weights and gradients, and of the sums of gradients.
inline int64_t norm_bytes(std::span<const UpdateTensor> tensors, bool accumulates) {
  int64_t bytes = 0;
  for (const UpdateTensor& t : tensors) bytes += t.count * (4 + bytes_of(t.gradient_type) + (accumulates ? 4 : 0));
  return bytes;
}

}  // namespace dtrain::cuda
