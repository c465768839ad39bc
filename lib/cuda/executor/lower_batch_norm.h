// The parts of a batch normalization, because an addition and a ReLU after it may be computed in its last pass over
// memory.
#pragma once

#include "cuda/executor/lower.h"

namespace dtrain::cuda {

// Emits y = gamma (x - mean) inv_std + beta, plus `skip` if it exists, then max(y, 0) if relu.
void emit_apply(Lowering& l, const Norm& norm, const Map& skip, bool relu, const Map& y);

// The maps of a backward pass. y: needed if a skip was added before the ReLU. dskip: where to write the skip's
// gradient, if it is needed.
struct NormGradient {
  Map y = {}, dy = {}, dskip = {};
  bool relu = false;
};
void emit_norm_backward(Lowering& l, const Norm& norm, const NormGradient& gradient);

}  // namespace dtrain::cuda
