// How far a backend's result for one node may differ from the exact result if rounding is the only cause.
//
// The bound follows from the type and the length of the sums: a sum of L terms with independent rounding errors is off
// by about sqrt(L) units in the last place of its terms. Where terms cancel, as in the gradient of a bias before a
// batch normalization, the error does not shrink with the sum. So errors are norms of differences, divided by the
// larger of the norm of the result and the norm that it would have without cancellation.
#pragma once

#include "exec/reference/executor.h"

namespace dtrain::exec {

struct Rounding {
  double scale = 0;   // Euclidean norm that the result would have if its terms had random signs and did not cancel
  double length = 1;  // number of terms in the longest sum

  // Adds the rounding of a further summand to this rounding of a sum. A sum begins as {0, 0}.
  void add(const Rounding& summand);
};

using Reference = reference::ReferenceExecutor<double>;

// The rounding of three things, in this order: a node's output; the terms that its backward pass adds to the gradients
// of its inputs; the term that it adds to the gradient of the parameter that it reads as argument `use.argument`. The
// functions read inputs and parameters from `reference`; the two for gradients also read the node's own gradient.
Rounding output_rounding(const graph::Graph& graph, Reference& reference, graph::NodeId node);
Rounding input_gradient_rounding(const graph::Graph& graph, Reference& reference, graph::NodeId node);
Rounding parameter_gradient_rounding(const graph::Graph& graph, Reference& reference, const graph::TensorUse& use);

// The largest normalized error that a type explains if sums are in float32. tf32: whether the products of float32 may
// be rounded to TF32's 10 bits.
double tolerance(const Rounding& rounding, Type type = Type::kFloat32, bool tf32 = false);

}  // namespace dtrain::exec
