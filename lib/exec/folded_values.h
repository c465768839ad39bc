// The values of a graph whose batch normalizations have been folded into the preceding layers.
#pragma once

#include "graph/fold.h"
#include "tensor/parameters.h"

namespace dtrain::exec {

// Sets the weights and statistics of `folded.graph` from those of the original graph. A layer y = w x + b whose batch
// normalization was folded gets, for each output channel, with s = gamma / sqrt(variance + epsilon):
//   w' = s w      b' = s (b - mean) + beta
// All other values are copied. Both views must be in the host's memory.
void fill_folded(const graph::FoldedGraph& folded, const ParameterView& values, const ParameterView& filled);

}  // namespace dtrain::exec
