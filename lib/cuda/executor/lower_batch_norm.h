// A batch norm in parts, since a sum and a ReLU behind it may be computed in its last pass over memory.
#pragma once

#include "cuda/executor/lower.h"

namespace dtrain::cuda {

// Applies: y = gamma (x - mean) inv_std + beta, + skip if there is one, cut at 0 if relu.
void emit_apply(Lowering& l, const Norm& norm, const Map& skip, bool relu, const Map& y);

// y: where a skip was added before the ReLU. dskip: where its gradient is to be written, if anybody wants it.
struct NormGradient {
  Map y = {}, dy = {}, dskip = {};
  bool relu = false;
};
void emit_norm_backward(Lowering& l, const Norm& norm, const NormGradient& gradient);

}  // namespace dtrain::cuda
