// Decides which nodes of a graph are computed together. Fusion changes results by rounding only.
#pragma once

#include <vector>

#include "graph/ids.h"

namespace dtrain::exec {

struct Fusions {
  static constexpr graph::NodeId kNone = static_cast<graph::NodeId>(-1);
  // By node, for a BatchNorm, an Add or, in inference, a Convolution: the ReLU computed in the same pass over memory,
  // or kNone. That ReLU is the only reader of the node's output, which is never stored.
  std::vector<graph::NodeId> relu_after;
  // By node, for such a ReLU: the node that it is computed with.
  std::vector<graph::NodeId> computed_by;
};

// `with_convolutions`: for backends that can compute a convolution and a ReLU in one pass. Only inference may ask for
// it, because backward reads the convolution's own output.
Fusions find_fusions(const graph::Graph& graph, bool with_convolutions = false);
// Without fusions, so that every node's output can be read (Options::keep_all).
Fusions no_fusions(const graph::Graph& graph);

}  // namespace dtrain::exec
