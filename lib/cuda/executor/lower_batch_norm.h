// The parts of a batch normalization, because an addition and a ReLU after it may be computed in its last pass over
// memory.
#pragma once

#include "cuda/executor/lower.h"

namespace dtrain::cuda {

// Emits y = gamma (x - mean) inv_std + beta, plus `skip` if it exists, then max(y, 0) if relu. passed: where to write
// the bits of BatchNormApply::passed, if they are wanted.
void emit_apply(Lowering& l, const Norm& norm, const Map& skip, bool relu, const Map& y, ValueId passed = kNoValue);

// The maps of a backward pass. y or passed: needed if a skip was added before the ReLU. dskip: where to write the
// skip's gradient, if it is needed.
struct NormGradient {
  Map y = {}, dy = {}, dskip = {};
  ValueId passed = kNoValue;
  bool relu = false;
};
void emit_norm_backward(Lowering& l, const Norm& norm, const NormGradient& gradient);

}  // namespace dtrain::cuda
