// How far a backend may be from the exact result of one node, if only rounding stands between them.
//
// Derived from the type and the length of the sums: a sum of L terms with independent rounding errors is off by about
// sqrt(L) units of the last place of the terms. "Of the terms": where terms cancel, as in the gradient of a bias before
// a batch norm, the error does not shrink with the sum. So errors are norms of differences over the norm that the
// result has, or would have without cancellation, whichever is larger.
#pragma once

#include "exec/reference/executor.h"

namespace dtrain::exec {

struct Rounding {
  double scale = 0;   // Euclidean norm of the result if its terms had random signs
  double length = 1;  // terms of the longest sum
};

using Reference = reference::ReferenceExecutor<double>;

// Of a node's output; of what its backward adds to the gradients of its inputs; of the gradient of its i-th parameter.
// All from the tensors that `reference` holds: inputs and parameters, the node's own gradient for the latter two.
Rounding output_rounding(const graph::Graph& graph, Reference& reference, graph::NodeId node);
Rounding input_gradient_rounding(const graph::Graph& graph, Reference& reference, graph::NodeId node);
Rounding parameter_gradient_rounding(const graph::Graph& graph, Reference& reference, graph::NodeId node, size_t i);

// The largest normalised error that a type explains, with sums in float32. tf32: float32 whose products may be rounded
// to TF32's 10 bits.
double tolerance(const Rounding& rounding, Type type = Type::kFloat32, bool tf32 = false);

}  // namespace dtrain::exec
